"""The tables and the picture of scripts/capacity."""

import statistics

from capacity_plot import WIDTH, Panel, picture

TRANSPORTS = {"grpc": "gRPC", "http": "HTTP"}


def median(steps, *path):
    """The median over rounds of a figure at `path`."""
    values = []
    for step in steps:
        for key in path:
            step = step.get(key, 0)
        values.append(step)
    return statistics.median(values)


def milliseconds(steps, measure, quantile):
    return 1000 * median(steps, "latency", measure, quantile)


def ratios_of(measured, load):
    """HTTP's tokens a second over gRPC's in each round, in order, and what HTTP adds to the median gap, ms."""
    grpc, http = measured["grpc"][load], measured["http"][load]
    ratios = sorted(h["token_rate"] / g["token_rate"] for g, h in zip(grpc, http))
    return ratios, milliseconds(http, "tpot", "p50") - milliseconds(grpc, "tpot", "p50")


def curve_table(curve):
    print("| clients | | tokens/s | least to most | first token p50 | p99 | between tokens p50 | p99 | end to end p50 | p99 | "
          "load generator |")
    print("|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for users in curve["grpc"]:
        for transport, name in TRANSPORTS.items():
            steps = curve[transport][users]
            rates = [step["token_rate"] for step in steps]
            cells = [f"{milliseconds(steps, measure, quantile):,.1f}" for measure in ("ttft", "tpot", "e2e")
                     for quantile in ("p50", "p99")]
            print(f"| {users if transport == 'grpc' else ''} | {name} | {statistics.median(rates):,.0f} "
                  f"| {min(rates):,.0f} to {max(rates):,.0f} | {' | '.join(cells)} "
                  f"| {100 * median(steps, 'generator_cpu'):.0f}% |")
    failed = sum(step["failed"] for steps in curve.values() for rounds in steps.values() for step in rounds)
    print(f"\n{failed} requests failed.\n")
    print("| clients | HTTP / gRPC, tokens/s | HTTP - gRPC, ms between tokens, median |\n|---:|---:|---:|")
    for users in curve["grpc"]:
        ratios, added = ratios_of(curve, users)
        print(f"| {users} | {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) | {added:+.2f} |")


def offered_table(offered):
    print("| requests a second | | tokens/s | first token p50, p99 ms | between tokens p50, p99 ms | mean between tokens p50 ms | failed |")
    print("|---:|---|---:|---:|---:|---:|---:|")
    for rate in offered["grpc"]:
        for transport, name in TRANSPORTS.items():
            steps = offered[transport][rate]
            times = [", ".join(f"{milliseconds(steps, measure, quantile):.2f}" for quantile in ("p50", "p99"))
                     for measure in ("ttft", "itl")]
            print(f"| {rate if transport == 'grpc' else ''} | {name} | {median(steps, 'token_rate'):,.0f} | {' | '.join(times)} "
                  f"| {milliseconds(steps, 'tpot', 'p50'):.2f} | {sum(step['failed'] for step in steps)} |")
    print("\n| requests a second | HTTP / gRPC, tokens/s | HTTP - gRPC, ms between tokens, median |\n|---:|---:|---:|")
    for rate in offered["grpc"]:
        ratios, added = ratios_of(offered, rate)
        print(f"| {rate} | {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}) | {added:+.2f} |")


def refused_of(transport, steps):
    """What a transport's steps tell of refusals: how many, how many of them were told when to come back, and how soon."""
    code = {"grpc": "RESOURCE_EXHAUSTED", "http": "429"}[transport]
    refused = [step["failures"][code] for step in steps if code in step["failures"]]
    attempts = sum(one["attempts"] for one in refused)
    told = f"{100 * sum(one['with_retry_after'] for one in refused) / attempts:.0f}%" if attempts else ""
    times = ", ".join(f"{1000 * pick(one['latency'][quantile] for one in refused if one['attempts']):.1f}"
                      for quantile, pick in (("p50", statistics.median), ("p99", max), ("max", max))) if attempts else ""
    return sum(one["requests"] for one in refused), told, times


def overload_table(overload):
    print("| | offered | offered /s | goodput /s | least to most | of the most | first token p50, p99 ms | refused | told when to retry "
          "| refused after p50, p99, max ms | other failures |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for transport, loads in overload.items():
        most = max(median(steps, "goodput") for steps in loads.values())
        for part, steps in loads.items():
            refused, told, times = refused_of(transport, steps)
            goodput = [step["goodput"] for step in steps]
            ttft = ", ".join(f"{milliseconds(steps, 'ttft', quantile):.0f}" for quantile in ("p50", "p99"))
            offered = "64 clients" if part == "closed" else f"{part} of that"
            of_most = f"{statistics.median(goodput) / most:.2f}" if most else ""  # in a short run none may be in time
            print(f"| {TRANSPORTS[transport]} | {offered} | {median(steps, 'offered_rate'):.1f} | {statistics.median(goodput):.1f} "
                  f"| {min(goodput):.1f} to {max(goodput):.1f} | {of_most} | {ttft} "
                  f"| {refused} | {told} | {times} | {sum(step['failed'] for step in steps) - refused} |")


def streams_table(measured):
    count, gap = measured["streams"], []
    print(f"| {count:,} streams | tokens/s | each stream | first token p50, p99 ms | between tokens p50, p99 ms | failed |")
    print("|---|---:|---:|---:|---:|---:|")
    for transport, steps in measured["steps"].items():
        rate, failed = median(steps, "token_rate"), sum(step["failed"] for step in steps)
        ttft, itl = ([milliseconds(steps, measure, quantile) for quantile in ("p50", "p99")] for measure in ("ttft", "itl"))
        gap.append(ttft[1])
        print(f"| {TRANSPORTS[transport]} | {rate:,.0f} | {rate / count:.0f} /s | {ttft[0]:.0f}, {ttft[1]:.0f} "
              f"| {itl[0]:.1f}, {itl[1]:.0f} | {failed} of {sum(step['requests'] for step in steps):,} |")
    print(f"\nThe first token's p99 over HTTP is {gap[1] - gap[0]:.0f} ms above that over gRPC. The gateway took at most "
          f"{measured['gateway_mb']:.0f} MB of memory.")


def idle_table(measured):
    waits = [1000 * wait for wait in measured["waits"]]
    print(f"{measured['connections']:,} idle connections: the gateway took {measured['held_mb']:.0f} MB, without them "
          f"{measured['before_mb']:.0f} MB. One that asked waited {statistics.median(waits):.1f} ms, {max(waits):.1f} ms at most; "
          f"in the end all were asked, and {measured['opened_again']} had to be opened again.")


def moves_table(measured):
    print(f"| {measured['sessions']} sessions, {measured['clients']} clients | a second |\n|---|---:|")
    for name, rate in measured["per_second"].items():
        print(f"| {name} | {rate:,.0f} |")


def draw(curve):
    def line(transport, value):
        return [(users, max(value(steps), 1e-3)) for users, steps in curve[transport].items()]

    panels = [Panel(0, "Throughput", "tokens a second", [
        (transport, "none", line(transport, lambda steps: median(steps, "token_rate"))) for transport in TRANSPORTS], from_zero=True)]
    for number, (title, measure) in enumerate({"Time to the first token": "ttft", "Mean time between tokens": "tpot"}.items(), 1):
        panels.append(Panel(number * WIDTH, title, "ms; median, and 99th percentile dashed", [
            (transport, dashes, line(transport, lambda steps, q=quantile, m=measure: milliseconds(steps, m, q)))
            for transport in TRANSPORTS for quantile, dashes in (("p50", "none"), ("p99", "5 4"))]))
    return picture(panels, TRANSPORTS)

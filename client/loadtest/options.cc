#include "client/loadtest/options.h"

#include <iostream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/flags.h"
#include "base/host_port.h"
#include "client/cpp/key_text.h"

namespace tvq::loadtest {
namespace {

constexpr double kMaxSeconds = 86'400;  // a day
constexpr double kMaxTemperature = 1e6;
constexpr double kDefaultWarmUp = 5;  // seconds
constexpr int64_t kDefaultRequests = 1'000'000;

// As given, before it is understood.
struct Texts {
  std::string http, api_key, concurrency, rate, prompt_tokens, output_tokens = "64", turns;
  std::string max_errors = "0";
  std::optional<double> warm_up;
  double duration = 30, grace = 30, timeout = 60, think = 0, read_pause = 1;
  double slo_ttft = 0, slo_itl = 0;
  std::optional<float> temperature;
  bool no_keep_alive = false, respect_eos = false, no_progress = false, allow_remote = false;
};

// Unlike Within it refuses what is not a number.
flags::Option Between(flags::Option option, double least, double most) {
  const std::string range = absl::StrCat(least, " to ", most);
  return option.Check(
      [=](const std::string& text) {
        double value = 0;
        const bool ok = absl::SimpleAtod(text, &value) && value >= least && value <= most;
        return ok ? "" : absl::StrCat(text, " is not a number from ", range);
      },
      range);
}

flags::Option Seconds(flags::Option option) {
  return Between(option.TypeName("SECONDS"), 0, kMaxSeconds).ShowDefault();
}

void AddTarget(flags::Command app, Options& options, Texts& texts) {
  const char* group = "Target: one of --grpc and --http";
  app.Add("--grpc", options.connect.address, "A tvq-server").TypeName("HOST:PORT").Group(group);
  app.Add("--http", texts.http, "A tvq-gateway: completions as server-sent events")
      .TypeName("URL")
      .Group(group);
  app.AddFlag("--no-keep-alive", texts.no_keep_alive, "HTTP: a connection for each request")
      .Group(group);
  app.AddFlag("--allow-remote", texts.allow_remote,
              "Load another machine than this one. It must be yours: to whom it belongs this is an "
              "attack, and what is measured is the network, too")
      .Group(group);
  app.Add("--model", options.request.model, "Left out: the server's first")
      .TypeName("NAME")
      .Group(group);
  app.Add("--connections", options.connections, "gRPC: connections that share the calls")
      .Within(1, 1000)
      .ShowDefault()
      .Group(group);
  app.Add("--api-key", texts.api_key, "Key for a server that wants one; @FILE: its first line")
      .Environment("TVQ_API_KEY")
      .TypeName("KEY|@FILE")
      .Group(group);
  app.AddFlag("--tls", options.connect.tls, "Use TLS; the files below ask for it too").Group(group);
  const auto file = [&](const char* name, std::string& value, const char* help) {
    app.Add(name, value, help).TypeName("FILE").Group(group);
  };
  file("--ssl-ca-certs", options.connect.ca_file,
       "PEM file of the authorities of the server's certificate");
  file("--ssl-certfile", options.connect.cert_file, "PEM file of the client's own certificate");
  file("--ssl-keyfile", options.connect.key_file, "PEM file of its key");
}

void AddLoad(flags::Command app, Options& options, Texts& texts) {
  const char* group = "Load: one of --concurrency and --rate";
  app.Add("--concurrency", texts.concurrency,
          "Closed loop: so many users, each of whom sends the next request after the answer; "
          "1,2,4: one step after the other")
      .TypeName("N,...")
      .Group(group);
  app.Add("--rate", texts.rate,
          "Open loop: requests per second, at random (Poisson), whatever becomes of those before; "
          "R..R: a ramp; 5,10,20: one step after the other")
      .TypeName("R,...")
      .Group(group);
  const auto seconds = [&](const char* name, double& value, const char* help) {
    Seconds(app.Add(name, value, help)).Group(group);
  };
  seconds("--duration", texts.duration, "What is measured of a step");
  Between(
      app.Add("--warm-up", texts.warm_up, "Before it, not measured; default 5, with --requests 0")
          .TypeName("SECONDS"),
      0, kMaxSeconds)
      .Group(group);
  seconds("--grace", texts.grace, "After it, for requests that still run; then they are cancelled");
  seconds("--timeout", texts.timeout, "Of a call; then it is cancelled, and has failed");
  app.Add("--requests", options.limits.max_conversations,
          "At most so many requests (with --turns: conversations) in a step, warm-up included")
      .Within(1, 1'000'000'000)
      .ShowDefault()
      .Group(group);
  app.Add("--max-in-flight", options.limits.max_in_flight,
          "Open loop: what is due while so many run is not sent, and has failed")
      .Within(1, 1'000'000)
      .ShowDefault()
      .Group(group);
  app.Add("--seed", options.workload.seed, "Of all that is drawn at random")
      .ShowDefault()
      .Group(group);
}

void AddRequests(flags::Command app, Options& options, Texts& texts) {
  const char* group = "Requests (LENGTH: N, uniform:A,B or lognormal:MEDIAN,SIGMA,MAX tokens)";
  const auto text = [&](const char* name, std::string& value, const char* type, const char* help) {
    return app.Add(name, value, help).TypeName(type).Group(group);
  };
  text("--prompt-tokens", texts.prompt_tokens, "LENGTH",
       "Prompts of random tokens, or pieces of --prompt-file; default 64");
  text("--prompt-file", options.prompt_file, "FILE",
       "Without --prompt-tokens: a prompt a line, drawn at random");
  text("--output-tokens", texts.output_tokens, "LENGTH", "Tokens to generate").ShowDefault();
  Between(app.Add("--temperature", texts.temperature, "Else the model's default"), 0,
          kMaxTemperature)
      .Group(group);
  app.AddFlag("--respect-eos", texts.respect_eos, "Outputs may end before their length")
      .Group(group);
}

void AddClients(flags::Command app, Options& options, Texts& texts) {
  const char* group = "Clients";
  const auto fraction = [&](const char* name, double& value, const char* help) {
    Between(app.Add(name, value, help).TypeName("FRACTION"), 0, 1).Group(group);
  };
  app.Add("--turns", texts.turns,
          "Conversations: each makes a session, sends so many requests on it, deletes it")
      .TypeName("LENGTH")
      .Group(group);
  Seconds(app.Add("--think", texts.think,
                  "Mean pause between turns, and of a user between requests; exponential"))
      .Group(group);
  fraction("--slow-readers", options.workload.slow_readers,
           "Requests whose stream is read with pauses");
  Seconds(app.Add("--read-pause", texts.read_pause, "... of so long between reads")).Group(group);
  fraction("--cancels", options.workload.cancels,
           "Requests that are cancelled in mid-stream, after a token drawn at random");
  app.Add("--retries", options.workload.retries,
          "Send a request again, so often, when the server refused it and said when to come back; "
          "its latency counts on")
      .Within(0, 1000)
      .ShowDefault()
      .Group(group);
}

void AddReport(flags::Command app, Options& options, Texts& texts) {
  const char* group = "Report";
  const auto seconds = [&](const char* name, double& value, const char* help) {
    Between(app.Add(name, value, help).TypeName("SECONDS"), 0, kMaxSeconds).Group(group);
  };
  seconds("--slo-ttft", texts.slo_ttft,
          "Goodput counts requests whose first token came within this");
  seconds("--slo-itl", texts.slo_itl,
          "... and whose tokens came so soon after one another, on average");
  app.Add("--max-errors", texts.max_errors, "Requests that may fail; more: exit code 1")
      .TypeName("N|P%")
      .ShowDefault()
      .Group(group);
  app.Add("--json", options.json_file, "Write all figures to this file")
      .TypeName("FILE")
      .Group(group);
  app.Add("--html", options.html_file, "Write a page with plots to this file")
      .TypeName("FILE")
      .Group(group);
  app.AddFlag("--no-progress", texts.no_progress, "Do not tell on stderr how far it is")
      .Group(group);
}

absl::Status About(const char* flag, const absl::Status& status) {
  return {status.code(), absl::StrCat(flag, ": ", status.message())};
}

absl::Status ReadTarget(const Texts& texts, Options& options) {
  if (options.connect.address.empty() == texts.http.empty()) {
    return absl::InvalidArgumentError("give one of --grpc HOST:PORT and --http URL");
  }
  auto key = client::ReadKeyText(texts.api_key);
  if (!key.ok()) return key.status();
  options.connect.api_key = *std::move(key);
  std::string address;
  if (texts.http.empty()) {
    const auto server = ParseServerAddress(options.connect.address, client::kDefaultPort);
    if (!server.ok()) return About("--grpc", server.status());
    address = options.connect.address = server->address;
    options.connect.tls = options.connect.tls || server->tls;
  } else {
    const auto url = ParseUrl(texts.http);
    if (!url.ok()) return About("--http", url.status());
    options.http = {.url = *url,
                    .api_key = options.connect.api_key,
                    .keep_alive = !texts.no_keep_alive,
                    .ca_file = options.connect.ca_file};
    address = url->authority();
  }
  if (texts.allow_remote || IsLoopback(address)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(texts.http.empty() ? "--grpc: " : "--http: ", address,
                   " is not this machine; --allow-remote says that you may load it"));
}

absl::Status ReadSteps(const Texts& texts, Options& options) {
  if (texts.concurrency.empty() == texts.rate.empty()) {
    return absl::InvalidArgumentError("give one of --concurrency and --rate");
  }
  if (!texts.rate.empty()) {
    const auto rates = ParseRates(texts.rate);
    if (!rates.ok()) return About("--rate", rates.status());
    for (const Rate& rate : *rates) {
      options.steps.push_back({.rate = rate});
      options.labels.push_back(rate.begin == rate.end
                                   ? absl::StrCat("rate ", rate.begin, "/s")
                                   : absl::StrCat("rate ", rate.begin, "..", rate.end, "/s"));
    }
    return absl::OkStatus();
  }
  const auto users = ParseUsers(texts.concurrency);
  if (!users.ok()) return About("--concurrency", users.status());
  for (const int64_t count : *users) {
    options.steps.push_back({.users = count});
    options.labels.push_back(absl::StrCat("concurrency ", count));
  }
  return absl::OkStatus();
}

absl::Status ReadLengths(const Texts& texts, Options& options) {
  const auto output = LengthDistribution::Parse(texts.output_tokens);
  if (!output.ok()) return About("--output-tokens", output.status());
  options.workload.output = *output;
  if (!texts.prompt_tokens.empty()) {
    const auto prompt = LengthDistribution::Parse(texts.prompt_tokens);
    if (!prompt.ok()) return About("--prompt-tokens", prompt.status());
    options.prompt_tokens = *prompt;
  }
  if (!texts.turns.empty()) {
    const auto turns = LengthDistribution::Parse(texts.turns);
    if (!turns.ok()) return About("--turns", turns.status());
    options.workload.sessions = true;
    options.workload.turns = *turns;
  }
  if (options.workload.slow_readers + options.workload.cancels > 1) {
    return absl::InvalidArgumentError("--slow-readers and --cancels: must not be above 1 together");
  }
  return absl::OkStatus();
}

absl::Status Understand(const Texts& texts, Options& options) {
  absl::Status status = ReadTarget(texts, options);
  status.Update(ReadSteps(texts, options));
  status.Update(ReadLengths(texts, options));
  const auto max_errors = ParseMaxErrors(texts.max_errors);
  if (!max_errors.ok()) status.Update(About("--max-errors", max_errors.status()));
  if (texts.duration <= 0) status.Update(absl::InvalidArgumentError("--duration: must be above 0"));
  if (texts.timeout <= 0) status.Update(absl::InvalidArgumentError("--timeout: must be above 0"));
  if (!status.ok()) return status;
  options.max_errors = *max_errors;
  options.limits.duration = FromSeconds(texts.duration);
  // A count is of all requests, unless a warm-up is asked for.
  const bool counted = options.limits.max_conversations < kDefaultRequests;
  options.limits.warm_up = FromSeconds(texts.warm_up.value_or(counted ? 0 : kDefaultWarmUp));
  options.limits.grace = FromSeconds(texts.grace);
  options.limits.timeout = FromSeconds(texts.timeout);
  options.workload.think_time = FromSeconds(texts.think);
  options.workload.read_pause = FromSeconds(texts.read_pause);
  // A session that is left behind, by a server that does not answer, goes by itself.
  options.request.session_ttl = 600 + texts.duration + texts.timeout;
  if (texts.slo_ttft > 0) options.slo.ttft = FromSeconds(texts.slo_ttft);
  if (texts.slo_itl > 0) options.slo.itl = FromSeconds(texts.slo_itl);
  options.request.ignore_eos = !texts.respect_eos;
  options.request.temperature = texts.temperature;
  options.progress = !texts.no_progress;
  return absl::OkStatus();
}

}  // namespace

std::optional<Options> ParseOptions(int argc, char** argv, int* exit_code) {
  Options options;
  options.limits.max_conversations = kDefaultRequests;
  options.limits.max_in_flight = 20'000;
  Texts texts;
  const flags::Program app("Puts a tvq server under load and measures what its clients see.",
                           "tvq-loadtest");
  app.Version(TVQ_VERSION);
  AddTarget(app, options, texts);
  AddLoad(app, options, texts);
  AddRequests(app, options, texts);
  AddClients(app, options, texts);
  AddReport(app, options, texts);
  app.Footer(
      "Exit codes: 0 done, 1 more requests failed than --max-errors or the server cannot be\n"
      "reached, 2 wrong usage, or a report that cannot be written. docs/load-testing.md tells what "
      "is measured, and how.");
  if (const std::optional<int> ends = app.Parse(argc, argv)) {
    *exit_code = *ends;
    return std::nullopt;
  }
  if (const absl::Status status = Understand(texts, options); !status.ok()) {
    std::cerr << "tvq-loadtest: " << status.message() << "\n";
    *exit_code = 2;
    return std::nullopt;
  }
  for (auto& [name, value] : app.Given()) {
    if (name != "api-key") options.settings.emplace_back(std::move(name), std::move(value));
  }
  return options;
}

}  // namespace tvq::loadtest

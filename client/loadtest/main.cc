// tvq-loadtest: puts a server under load and measures what its clients see.
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/output_file.h"
#include "base/variables.h"
#include "client/cpp/grpc_log.h"
#include "client/cpp/key_text.h"
#include "client/loadtest/grpc_target.h"
#include "client/loadtest/make_prompts.h"
#include "client/loadtest/options.h"
#include "client/loadtest/progress.h"
#include "client/loadtest/report/report.h"

namespace tvq::loadtest {
namespace {

constexpr int kOk = 0, kFailed = 1, kUsage = 2;

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal's handler sets it");

// The first Ctrl-C ends the step in progress and reports, the second ends the process.
void Interrupt(int signal) {
  interrupted = true;
  std::signal(signal, SIG_DFL);
}

Nanos CpuTime() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto nanos = [](const timeval& time) {
    return time.tv_sec * kSecond + time.tv_usec * 1000;
  };
  return nanos(usage.ru_utime) + nanos(usage.ru_stime);
}

Summary RunStep(const Options& options, size_t index, Transport& transport, uint64_t* next_id) {
  const Step& step = options.steps[index];
  Recorder recorder({.warm_up = options.limits.warm_up,
                     .duration = options.limits.duration,
                     .open_loop = step.open_loop(),
                     .think_time = options.workload.think_time,
                     .slo = options.slo});
  Driver driver(transport, options.workload, step, options.limits, recorder, interrupted);
  driver.set_first_id(*next_id);
  ProgressLine line(options.labels[index], options.limits.warm_up + options.limits.duration);
  if (options.progress) {
    driver.set_on_progress(
        [&](const Driver::Progress& progress) { line.Update(progress, recorder.totals()); });
  }
  const Nanos cpu = CpuTime(), begin = transport.Now();
  driver.Run();
  *next_id = driver.next_id();
  Summary summary = recorder.Finish();
  summary.label = options.labels[index];
  summary.load = step.open_loop() ? step.rate.mean() : static_cast<double>(step.users);
  summary.generator_cpu = ToSeconds(CpuTime() - cpu) / ToSeconds(transport.Now() - begin);
  return summary;
}

int ExitCode(const Options& options, const Report& report) {
  int64_t requests = 0, failed = 0;
  for (const Summary& step : report.steps) {
    requests += step.requests;
    failed += step.failed;
  }
  if (requests == 0) {
    std::cerr << "tvq-loadtest: no request was due after the warm-up\n";
    return kFailed;
  }
  const double allowed = options.max_errors.fraction
                             ? *options.max_errors.fraction * static_cast<double>(requests)
                             : static_cast<double>(options.max_errors.count);
  if (static_cast<double>(failed) <= allowed) return kOk;
  std::cerr << "tvq-loadtest: " << failed << " of " << requests
            << " requests failed, more than --max-errors\n";
  return kFailed;
}

// The code tells how a call failed; of a file or an option the message does.
int Fail(const absl::Status& status, int code) {
  std::cerr << "tvq-loadtest: ";
  if (code == kFailed) std::cerr << absl::StatusCodeToString(status.code()) << ": ";
  std::cerr << status.message() << "\n";
  return code;
}

// A report that is written to a file, unless `path` is empty. Opened before the load, so that it
// does not turn out afterwards that nothing can be written there.
class ReportFile {
 public:
  explicit ReportFile(const std::string& path) {
    if (!path.empty()) file_.emplace(path, Readers::kUmask);
  }
  absl::Status Open() { return file_ ? file_->Open() : absl::OkStatus(); }
  absl::Status Write(std::string (*render)(const Report&), const Report& report) {
    if (!file_) return absl::OkStatus();
    absl::Status status = file_->Write(render(report));
    if (status.ok()) status = file_->Commit();
    return status;
  }

 private:
  std::optional<OutputFile> file_;
};

int Main(int argc, char** argv) {
  int exit_code = kOk;
  std::optional<Options> options = ParseOptions(argc, argv, &exit_code);
  if (!options) return exit_code;
  WarnOfUnknownVariables("tvq-loadtest");
  std::signal(SIGINT, Interrupt);
  std::signal(SIGTERM, Interrupt);
  ReportFile json(options->json_file), html(options->html_file);
  for (ReportFile* file : {&json, &html}) {
    if (auto status = file->Open(); !status.ok()) return Fail(status, kUsage);
  }
  auto target = options->http ? OpenHttpTarget(*options->http)
                              : OpenGrpcTarget(options->connect, options->connections);
  if (!target.ok()) return Fail(target.status(), kUsage);
  const auto model = (*target)->GetModel(options->request.model);
  if (absl::IsUnauthenticated(model.status()) && options->connect.api_key.empty()) {
    return Fail(absl::UnauthenticatedError(client::kGiveKey), kFailed);
  }
  if (!model.ok()) return Fail(model.status(), kFailed);
  options->request.model = model->name;
  auto prompts = MakePrompts(*options, *model, **target);
  if (!prompts.ok()) return Fail(prompts.status(), kUsage);
  options->workload.prompts = *prompts;

  Report report{.target = (*target)->Description(),
                .server = model->server,
                .model = model->name,
                .started = absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone()),
                .settings = options->settings,
                .slo = options->slo};
  const std::unique_ptr<Transport> transport = (*target)->Open(options->request);
  uint64_t next_id = 0;
  for (size_t i = 0; i < options->steps.size() && !interrupted; ++i) {
    report.steps.push_back(RunStep(*options, i, *transport, &next_id));
  }
  report.interrupted = interrupted;
  exit_code = ExitCode(*options, report);
  // Files first: the reader of stdout may have gone.
  const absl::Status written[] = {json.Write(AsJson, report), html.Write(AsHtml, report)};
  std::cout << AsTable(report);
  for (const absl::Status& status : {written[0], written[1], FlushStdout()}) {
    if (!status.ok()) exit_code = Fail(status, kUsage);
  }
  return exit_code;
}

}  // namespace
}  // namespace tvq::loadtest

int main(int argc, char** argv) {
  // Debian builds Abseil with the checks of debug builds: a search for deadlocks at every lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  tvq::client::SilenceGrpc();
  return tvq::loadtest::Main(argc, argv);
}

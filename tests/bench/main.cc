// tvq-bench: how fast is this machine with this model, and how near to what its memory allows?
//
// Checks come first: what computes wrongly is not timed.

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/flags.h"
#include "base/output_file.h"
#include "base/variables.h"
#include "tests/bench/benches.h"
#include "tests/bench/kept_rows.h"
#include "tests/bench/options.h"
#include "tests/bench/report.h"
#include "tests/bench/subject.h"

namespace tvq::bench {
namespace {

using Bench = absl::Status (*)(Subject&, const Options&, Json&);

absl::Status RunBench(const std::string& name, Bench bench, Options options) {
  if (options.kept_rows > 0) {
    const absl::StatusOr<float> skip_mass = SkipMassFor(options);
    if (!skip_mass.ok()) return skip_mass.status();
    options.reads.skip_mass = *skip_mass;
  }
  absl::StatusOr<Subject> subject = OpenSubject(options);
  if (!subject.ok()) return subject.status();
  Json report = StartReport(name, options, *subject);
  if (absl::Status s = ValidateInto(*subject, report); !s.ok()) return s;
  if (absl::Status s = bench(*subject, options, report); !s.ok()) return s;
  return WriteReport(report, options.json);
}

void AddDeviceOptions(flags::Command app, Options& options) {
  app.Add("--device", options.device, "Where to compute").OneOf({"cpu", "cuda"}).ShowDefault();
  app.Add("--threads", options.threads, "0: all usable cores").Within(0, 1024).ShowDefault();
  app.Add("--isa", options.isa,
          "Limit the instruction set, e.g. avx2; on cuda tf32, serial or both");
  app.Add("--json", options.json, "File to write the results to");
}

void AddDTypeOptions(flags::Command app, Options& options) {
  app.Add("--dtype", options.dtype, "Of the weights")
      .OneOf({"float32", "bfloat16", "int8", "int4"})
      .ShowDefault();
  app.Add("--state-dtype", options.state_dtype,
          "Of recent values in a session's state; as --dtype unless given")
      .OneOf({"float32", "bfloat16"});
}

void AddWeightsOptions(flags::Command app, Options& options) {
  const flags::Option preset =
      app.Add("--preset", options.preset, "Random weights in a known shape").OneOf(PresetNames());
  const flags::Option dir = app.Add("--model", options.model_dir, "Model directory");
  preset.Excludes(dir);
}

void AddModelOptions(flags::Command app, Options& options) {
  AddWeightsOptions(app, options);
  AddDTypeOptions(app, options);
  AddDeviceOptions(app, options);
}

void AddLoadOptions(flags::Command app, Options& options) {
  AddWeightsOptions(app, options);
  AddDeviceOptions(app, options);
  app.Add("--dtype", options.dtypes, "Of the weights that are made")
      .SplitAt(',')
      .OneOf({"float32", "bfloat16", "int8", "int4"})
      .ShowDefault();
  app.Add("--stored", options.stored, "Of the matrices in a preset's file")
      .SplitAt(',')
      .OneOf({"float32", "bfloat16"})
      .ShowDefault();
  app.Add("--rounds", options.rounds, "Every case is measured once in every round")
      .Within(1, 1000)
      .ShowDefault();
  app.Add("--dir", options.session_dir,
          "Where a preset's files lie meanwhile; without it the system's folder for such");
}

void AddReadOptions(flags::Command app, Options& options) {
  app.AddFunction<std::string>(
         "--state-read-dtype",
         [&options](const std::string& values) { options.reads.int8 = values == "int8"; },
         "What decode reads of a state: its values, exact, or a copy of them, int8")
      .OneOf({"exact", "int8"});
  app.Add("--attention-skip-mass", options.reads.skip_mass,
          "Softmax mass that decode may leave out")
      .Within(0.0F, 0.999999F)
      .ShowDefault();
}

void AddFamiliesOptions(flags::Command app, Options& options) {
  AddDTypeOptions(app, options);
  AddDeviceOptions(app, options);
  app.Add("--context", options.contexts,
          "Positions at which a token is timed, the states injected; "
          "256,1024,4096,16384,65536")
      .SplitAt(',')
      .Within(1, 1 << 24);
  app.Add("--rounds", options.rounds, "Every family is measured once in every round")
      .Within(1, 1000)
      .ShowDefault();
  app.Add("--image-tokens", options.image_tokens, "Tokens of an image")
      .Within(1, 1 << 20)
      .ShowDefault();
  app.Add("--state-megabytes", options.state_megabytes,
          "Memory for the states of the images that are made at once")
      .Within(1, 1 << 20)
      .ShowDefault();
  app.Add("--most-images", options.most_images, "Made at once at most")
      .Within(1, 4096)
      .ShowDefault();
}

void AddRoundOptions(flags::Command app, Options& options) {
  app.Add("--context", options.contexts,
          "Tokens before the first measured one, the states injected; 2000,100000")
      .SplitAt(',')
      .Within(int64_t{0}, int64_t{1} << 40);
  app.Add("--rounds", options.rounds, "Every case is measured once in every round")
      .Within(1, 1000)
      .ShowDefault();
  app.Add("--seconds", options.seconds, "Length of one case in one round")
      .Within(0.0, 600.0)
      .ShowDefault();
  app.AddFlag("--profile", options.profile, "Time every op");
}

void AddAskOptions(flags::Command app, Options& options) {
  app.Add("--batch", options.batches, "Equal requests at once")
      .OneValue()
      .Within(1, 4096)
      .ShowDefault();
  app.Add("--rounds", options.rounds, "Times that each side is asked")
      .Within(1, 1000)
      .ShowDefault();
  app.Add("--prompt-tokens", options.prompt_tokens, "Length of the prompt")
      .Within(1, 1 << 30)
      .ShowDefault();
  app.Add("--max-tokens", options.max_tokens, "Generated per request")
      .Within(2, 1 << 30)
      .ShowDefault();
}

int Main(int argc, char** argv) {
  Options options;
  std::vector<std::string> words(argv, argv + argc);
  if (!words.empty()) words[0] = "tvq-bench";
  for (const std::string& word : words)
    absl::StrAppend(&options.command, &word == words.data() ? "" : " ", word);

  const flags::Program app(
      "Measures a model on this machine, after checking that it computes correctly.", "tvq-bench");
  app.Version(TVQ_VERSION);
  app.RequireCommand();
  app.Footer("Exit codes: 0 measured, 1 a check failed, 2 wrong usage or other trouble.");

  const flags::Command decode = app.AddCommand("decode", "Time per generated token");
  AddModelOptions(decode, options);
  AddReadOptions(decode, options);
  AddRoundOptions(decode, options);
  decode
      .Add("--kept-rows", options.kept_rows,
           "Share of rows to read, by the skip mass that leaves as many: random weights "
           "attend more evenly than trained ones")
      .Within(0.01, 1.0);
  decode.Add("--batch", options.batches, "Sessions that generate together; e.g. 1,4,32")
      .SplitAt(',')
      .Within(1, 4096)
      .ShowDefault();
  decode
      .Add("--ceiling-megabytes", options.ceiling_megabytes,
           "Buffer on which the speed of reading memory is measured")
      .Within(2, 1 << 16)
      .ShowDefault();
  decode.AddFlag("--tail", options.tail,
                 "Time reads of as many bytes between the steps: what of the slowest steps is "
                 "the machine's; on the CPU");
  decode.Add("--tokens", options.tokens,
             "Instead: generate this many in one session and watch the process's memory");

  const flags::Command prefill = app.AddCommand("prefill", "Speed of reading a prompt");
  AddModelOptions(prefill, options);
  AddRoundOptions(prefill, options);
  prefill.Add("--prompt-tokens", options.prompt_tokens, "Length of the prompt")
      .Within(1, 1 << 30)
      .ShowDefault();

  prefill
      .Add("--matrix-size", options.matrix_size,
           "Rows and columns of the matrices that show the device's rate; 0: 8192 on cuda, "
           "1024 on cpu")
      .Within(0, 1 << 16);

  const flags::Command restore =
      app.AddCommand("restore", "First token of a saved session, against prefilling it");
  AddModelOptions(restore, options);
  restore.Add("--context", options.contexts, "Tokens of the session; 1024,16384,131072")
      .SplitAt(',')
      .Within(1, 1 << 24);
  restore.Add("--rounds", options.rounds, "Every case is measured once in every round")
      .Within(1, 1000)
      .ShowDefault();
  restore
      .Add("--prefills", options.prefills,
           "Rounds that read the context, the first ones; the others add a token to it")
      .Within(1, 1000);
  restore.Add("--session-dir", options.session_dir,
              "Folder to save in; without it the system's for temporary files");

  const flags::Command engine = app.AddCommand("engine", "What the engine adds to the model");
  AddModelOptions(engine, options);
  AddAskOptions(engine, options);
  const flags::Command serve = app.AddCommand("serve", "What gRPC adds to the engine");
  AddModelOptions(serve, options);
  AddReadOptions(serve, options);
  AddAskOptions(serve, options);

  const flags::Command reads =
      app.AddCommand("reads", "Loss, and speed, by what decode reads of states");
  AddModelOptions(reads, options);
  const flags::Command scored = reads.AddChoice("Scored", "Fed token by token");
  const flags::Option text = scored.Add("--text", options.text, "File, as one context");
  scored.Add("--pairs", options.pairs, "Lines of two texts with a tab between them: the second");
  scored.Add("--images", options.images, "An idx file of many images");
  reads.Add("--tokens", options.tokens, "Of the text; 0: all").Needs(text).Within(0, 1 << 30);
  reads.Add("--examples", options.examples, "The first so many pairs or images; 0: all")
      .Excludes(text)
      .Within(0, 1 << 30);
  reads.Add("--skip-mass", options.skip_masses, "Softmax mass that decode may leave out")
      .SplitAt(',')
      .Within(0.0F, 0.999999F)
      .ShowDefault();

  const flags::Command drafts = app.AddCommand("drafts", "Steps of several tokens of one session");
  AddModelOptions(drafts, options);
  AddReadOptions(drafts, options);
  AddAskOptions(drafts, options);
  drafts.Add("--draft-tokens", options.draft_tokens, "Of a step, beside a token of its own")
      .SplitAt(',')
      .Within(1, 64)
      .ShowDefault();
  drafts.Add("--context", options.contexts, "Tokens before a step that is timed; 2000")
      .OneValue()
      .Within(int64_t{0}, int64_t{1} << 40);
  const flags::Option drafted =
      drafts.Add("--text", options.text,
                 "File whose first --prompt-tokens are also generated from by the engine");
  drafts
      .Add("--neighbour-text", options.neighbour_text,
           "File with the prompt of one more request, of temperature 1, beside those of --text")
      .Needs(drafted);
  drafts.Add("--temperature", options.temperature, "Of what is generated; 0: greedy")
      .Within(0.0F, 10.0F)
      .ShowDefault();

  const flags::Command load = app.AddCommand("load", "Time from a file to a model that computes");
  AddLoadOptions(load, options);

  const flags::Command families =
      app.AddCommand("families", "Softmax, linear and VQ attention in models of one size");
  AddFamiliesOptions(families, options);

  const flags::Command masks =
      app.AddCommand("masks", "Which tokens may be next in JSON of a schema");
  masks.Add("--vocab-size", options.vocab_size, "Tokens, which are random")
      .Within(300, 1 << 22)
      .ShowDefault();
  masks.Add("--outputs", options.rounds, "Of each schema").Within(1, 1 << 20).ShowDefault();
  masks.Add("--json", options.json, "File to write the results to");

  if (const std::optional<int> ends = app.Parse(argc, argv)) return *ends;
  WarnOfUnknownVariables("tvq-bench");
  if (!families.parsed() && !masks.parsed() && options.preset.empty() &&
      options.model_dir.empty()) {
    return app.Lacks("--preset or --model");
  }
  absl::Status status;
  options.any_family = decode.parsed() || prefill.parsed() || restore.parsed();
  if (decode.parsed()) {
    if (options.contexts.empty()) options.contexts = {2000, 100000};
    status = RunBench("decode", options.tokens > 0 ? BenchGrowth : BenchDecode, options);
  } else if (prefill.parsed()) {
    if (options.contexts.empty()) options.contexts = {0};
    status = RunBench("prefill", BenchPrefill, options);
  } else if (restore.parsed()) {
    if (options.contexts.empty()) options.contexts = {1024, 16384, 131072};
    status = RunBench("restore", BenchRestore, options);
  } else if (engine.parsed()) {
    status = RunBench("engine", BenchEngine, options);
  } else if (drafts.parsed()) {
    if (options.contexts.empty()) options.contexts = {2000};
    status = RunBench("drafts", BenchDrafts, options);
  } else if (reads.parsed()) {
    status = RunBench("reads", BenchReads, options);
  } else if (load.parsed()) {
    status = BenchLoad(options);
  } else if (masks.parsed()) {
    status = BenchMasks(options);
  } else if (families.parsed()) {
    if (options.contexts.empty()) options.contexts = {256, 1024, 4096, 16384, 65536};
    status = BenchFamilies(options);
  } else {
    status = RunBench("serve", BenchServe, options);
  }
  status.Update(FlushStdout());
  if (status.ok()) return 0;
  std::fprintf(stderr, "tvq-bench: %s\n", std::string(status.message()).c_str());
  return status.code() == absl::StatusCode::kAborted ? 1 : 2;
}

}  // namespace
}  // namespace tvq::bench

int main(int argc, char** argv) {
  // As the server: Debian builds Abseil with a search for deadlocks at every lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  if (argc > 1 && tvq::bench::RanAsClient({argv + 1, static_cast<size_t>(argc - 1)})) return 0;
  return tvq::bench::Main(argc, argv);
}

// tvq-bench: how fast is this machine with this model, and how near to what its memory allows?
//
// Checks come first: what computes wrongly is not timed.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
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

void AddDeviceOptions(CLI::App& app, Options& options) {
  app.add_option("--device", options.device, "Where to compute")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "0: all usable cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--isa", options.isa,
                 "Limit the instruction set, e.g. avx2; on cuda tf32, serial or both");
  app.add_option("--json", options.json, "File to write the results to");
}

void AddDTypeOptions(CLI::App& app, Options& options) {
  app.add_option("--dtype", options.dtype, "Of the weights")
      ->check(CLI::IsMember({"float32", "bfloat16", "int8", "int4"}))
      ->capture_default_str();
  app.add_option("--state-dtype", options.state_dtype,
                 "Of recent values in a session's state; as --dtype unless given")
      ->check(CLI::IsMember({"float32", "bfloat16"}));
}

void AddWeightsOptions(CLI::App& app, Options& options) {
  CLI::Option* preset =
      app.add_option("--preset", options.preset, "Random weights in a known shape")
          ->check(CLI::IsMember(PresetNames()));
  CLI::Option* dir = app.add_option("--model", options.model_dir, "Model directory");
  preset->excludes(dir);
}

void AddModelOptions(CLI::App& app, Options& options) {
  AddWeightsOptions(app, options);
  AddDTypeOptions(app, options);
  AddDeviceOptions(app, options);
}

void AddLoadOptions(CLI::App& app, Options& options) {
  AddWeightsOptions(app, options);
  AddDeviceOptions(app, options);
  app.add_option("--dtype", options.dtypes, "Of the weights that are made")
      ->delimiter(',')
      ->check(CLI::IsMember({"float32", "bfloat16", "int8", "int4"}))
      ->capture_default_str();
  app.add_option("--stored", options.stored, "Of the matrices in a preset's file")
      ->delimiter(',')
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "Every case is measured once in every round")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--dir", options.session_dir,
                 "Where a preset's files lie meanwhile; without it the system's folder for such");
}

void AddReadOptions(CLI::App& app, Options& options) {
  app.add_option_function<std::string>(
         "--state-read-dtype",
         [&options](const std::string& values) { options.reads.int8 = values == "int8"; },
         "What decode reads of a state: its values, exact, or a copy of them, int8")
      ->check(CLI::IsMember({"exact", "int8"}));
  app.add_option("--attention-skip-mass", options.reads.skip_mass,
                 "Softmax mass that decode may leave out")
      ->check(CLI::Range(0.0F, 0.999999F))
      ->capture_default_str();
}

void AddFamiliesOptions(CLI::App& app, Options& options) {
  AddDTypeOptions(app, options);
  AddDeviceOptions(app, options);
  app.add_option("--context", options.contexts,
                 "Positions at which a token is timed, the states injected; "
                 "256,1024,4096,16384,65536")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--rounds", options.rounds, "Every family is measured once in every round")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--image-tokens", options.image_tokens, "Tokens of an image")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--state-megabytes", options.state_megabytes,
                 "Memory for the states of the images that are made at once")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--most-images", options.most_images, "Made at once at most")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
}

void AddRoundOptions(CLI::App& app, Options& options) {
  app.add_option("--context", options.contexts,
                 "Tokens before the first measured one, the states injected; 2000,100000")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  app.add_option("--rounds", options.rounds, "Every case is measured once in every round")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "Length of one case in one round")
      ->check(CLI::Range(0.0, 600.0))
      ->capture_default_str();
  app.add_flag("--profile", options.profile, "Time every op");
}

void AddAskOptions(CLI::App& app, Options& options) {
  app.add_option("--batch", options.batches, "Equal requests at once")
      ->expected(1)
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "Times that each side is asked")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--prompt-tokens", options.prompt_tokens, "Length of the prompt")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  app.add_option("--max-tokens", options.max_tokens, "Generated per request")
      ->check(CLI::Range(2, 1 << 30))
      ->capture_default_str();
}

int Main(int argc, char** argv) {
  Options options;
  std::vector<std::string> words(argv, argv + argc);
  if (!words.empty()) words[0] = "tvq-bench";
  for (const std::string& word : words)
    absl::StrAppend(&options.command, &word == words.data() ? "" : " ", word);

  CLI::App app("Measures a model on this machine, after checking that it computes correctly.",
               "tvq-bench");
  app.require_subcommand(1);
  app.footer("Exit codes: 0 measured, 1 a check failed, 2 wrong usage or other trouble.");

  CLI::App* decode = app.add_subcommand("decode", "Time per generated token");
  AddModelOptions(*decode, options);
  AddReadOptions(*decode, options);
  AddRoundOptions(*decode, options);
  decode
      ->add_option("--kept-rows", options.kept_rows,
                   "Share of rows to read, by the skip mass that leaves as many: random weights "
                   "attend more evenly than trained ones")
      ->check(CLI::Range(0.01, 1.0));
  decode->add_option("--batch", options.batches, "Sessions that generate together; e.g. 1,4,32")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  decode
      ->add_option("--ceiling-megabytes", options.ceiling_megabytes,
                   "Buffer on which the speed of reading memory is measured")
      ->check(CLI::Range(2, 1 << 16))
      ->capture_default_str();
  decode->add_flag("--tail", options.tail,
                   "Time reads of as many bytes between the steps: what of the slowest steps is "
                   "the machine's; on the CPU");
  decode->add_option("--tokens", options.tokens,
                     "Instead: generate this many in one session and watch the process's memory");

  CLI::App* prefill = app.add_subcommand("prefill", "Speed of reading a prompt");
  AddModelOptions(*prefill, options);
  AddRoundOptions(*prefill, options);
  prefill->add_option("--prompt-tokens", options.prompt_tokens, "Length of the prompt")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();

  prefill
      ->add_option("--matrix-size", options.matrix_size,
                   "Rows and columns of the matrices that show the device's rate; 0: 8192 on cuda, "
                   "1024 on cpu")
      ->check(CLI::Range(0, 1 << 16));

  CLI::App* restore =
      app.add_subcommand("restore", "First token of a saved session, against prefilling it");
  AddModelOptions(*restore, options);
  restore->add_option("--context", options.contexts, "Tokens of the session; 1024,16384,131072")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 24));
  restore->add_option("--rounds", options.rounds, "Every case is measured once in every round")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  restore
      ->add_option("--prefills", options.prefills,
                   "Rounds that read the context, the first ones; the others add a token to it")
      ->check(CLI::Range(1, 1000));
  restore->add_option("--session-dir", options.session_dir,
                      "Folder to save in; without it the system's for temporary files");

  CLI::App* engine = app.add_subcommand("engine", "What the engine adds to the model");
  AddModelOptions(*engine, options);
  AddAskOptions(*engine, options);
  CLI::App* serve = app.add_subcommand("serve", "What gRPC adds to the engine");
  AddModelOptions(*serve, options);
  AddReadOptions(*serve, options);
  AddAskOptions(*serve, options);

  CLI::App* reads = app.add_subcommand("reads", "Loss, and speed, by what decode reads of states");
  AddModelOptions(*reads, options);
  CLI::Option_group* scored = reads->add_option_group("Scored", "Fed token by token");
  CLI::Option* text = scored->add_option("--text", options.text, "File, as one context");
  scored->add_option("--pairs", options.pairs,
                     "Lines of two texts with a tab between them: the second");
  scored->add_option("--images", options.images, "An idx file of many images");
  scored->require_option(1);
  reads->add_option("--tokens", options.tokens, "Of the text; 0: all")
      ->needs(text)
      ->check(CLI::Range(0, 1 << 30));
  reads->add_option("--examples", options.examples, "The first so many pairs or images; 0: all")
      ->excludes(text)
      ->check(CLI::Range(0, 1 << 30));
  reads->add_option("--skip-mass", options.skip_masses, "Softmax mass that decode may leave out")
      ->delimiter(',')
      ->check(CLI::Range(0.0F, 0.999999F))
      ->capture_default_str();

  CLI::App* drafts = app.add_subcommand("drafts", "Steps of several tokens of one session");
  AddModelOptions(*drafts, options);
  AddReadOptions(*drafts, options);
  AddAskOptions(*drafts, options);
  drafts->add_option("--draft-tokens", options.draft_tokens, "Of a step, beside a token of its own")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  drafts->add_option("--context", options.contexts, "Tokens before a step that is timed; 2000")
      ->expected(1)
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  CLI::Option* drafted =
      drafts->add_option("--text", options.text,
                         "File whose first --prompt-tokens are also generated from by the engine");
  drafts
      ->add_option(
          "--neighbour-text", options.neighbour_text,
          "File with the prompt of one more request, of temperature 1, beside those of --text")
      ->needs(drafted);
  drafts->add_option("--temperature", options.temperature, "Of what is generated; 0: greedy")
      ->check(CLI::Range(0.0F, 10.0F))
      ->capture_default_str();

  CLI::App* load = app.add_subcommand("load", "Time from a file to a model that computes");
  AddLoadOptions(*load, options);

  CLI::App* families =
      app.add_subcommand("families", "Softmax, linear and VQ attention in models of one size");
  AddFamiliesOptions(*families, options);

  try {
    app.parse(argc, argv);
    if (!families->parsed() && options.preset.empty() && options.model_dir.empty()) {
      throw CLI::RequiredError("--preset or --model");
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  absl::Status status;
  if (decode->parsed()) {
    if (options.contexts.empty()) options.contexts = {2000, 100000};
    status = RunBench("decode", options.tokens > 0 ? BenchGrowth : BenchDecode, options);
  } else if (prefill->parsed()) {
    if (options.contexts.empty()) options.contexts = {0};
    status = RunBench("prefill", BenchPrefill, options);
  } else if (restore->parsed()) {
    if (options.contexts.empty()) options.contexts = {1024, 16384, 131072};
    status = RunBench("restore", BenchRestore, options);
  } else if (engine->parsed()) {
    status = RunBench("engine", BenchEngine, options);
  } else if (drafts->parsed()) {
    if (options.contexts.empty()) options.contexts = {2000};
    status = RunBench("drafts", BenchDrafts, options);
  } else if (reads->parsed()) {
    status = RunBench("reads", BenchReads, options);
  } else if (load->parsed()) {
    status = BenchLoad(options);
  } else if (families->parsed()) {
    if (options.contexts.empty()) options.contexts = {256, 1024, 4096, 16384, 65536};
    status = BenchFamilies(options);
  } else {
    status = RunBench("serve", BenchServe, options);
  }
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

// What the command line asks for.
#ifndef TVQ_TESTS_BENCH_OPTIONS_H_
#define TVQ_TESTS_BENCH_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "models/runtime/model.h"

namespace tvq::bench {

struct Options {
  // The model: a preset with random weights, or a model directory.
  std::string preset;
  std::string model_dir;
  bool any_family = false;  // of the model directory, not transformer_vq alone
  std::string dtype = "float32";
  std::vector<std::string> dtypes = {"float32", "bfloat16", "int8", "int4"};  // load: instead
  std::vector<std::string> stored = {"bfloat16", "float32"};  // load: forms of a preset's matrices
  std::string state_dtype;                                    // empty: as dtype
  StateReads reads;                                           // what decode reads of states
  std::string device = "cpu";
  int threads = 0;       // 0: all usable cores
  std::string isa;       // empty: the best there is
  bool profile = false;  // time per op

  // What is measured. A case is one batch size at one context length.
  std::vector<int64_t> batches = {1};
  std::vector<int64_t> contexts;     // tokens before the first measured one, injected
  int64_t rounds = 5;                // every case is measured once in every round
  double seconds = 1;                // of one case in one round
  int64_t ceiling_megabytes = 1024;  // read to measure the ceiling; more than any cache holds
  int64_t tokens = 0;    // decode: instead, this many tokens in one session; reads: of the text
  bool tail = false;     // decode: time reads of a step's bytes between the steps
  double kept_rows = 0;  // decode: share of rows to read, by the skip mass that gives it; or 0
  std::string text, pairs, images;  // reads: the file, one of them
  int64_t examples = 0;             // reads: of pairs or images; 0: all
  std::vector<float> skip_masses = {0.001F, 0.003F, 0.01F, 0.03F, 0.1F};  // reads
  int64_t prompt_tokens = 2048;  // prefill, engine and serve
  int64_t matrix_size = 0;       // prefill: of the product it is measured against; 0: the device's
  int64_t max_tokens = 64;       // engine and serve: generated per request
  std::vector<int64_t> draft_tokens = {1, 3, 7};  // drafts: of a step
  std::string neighbour_text;                     // drafts: the prompt of one more request
  float temperature = 1;                          // drafts: of what is generated
  int64_t prefills = 1000;                        // restore: rounds that read their context anew
  int64_t image_tokens = 784;                     // families: steps of one image
  int64_t state_megabytes = 256;  // families: for the states of the images made at once
  int64_t vocab_size = 151936;    // masks: tokens
  int64_t most_images = 256;      // families: made at once at most
  std::string session_dir;        // restore: where sessions are saved; empty: the system's own
  std::string json;               // file for the results; empty: none
  std::string command;            // the command line, for the record
};

}  // namespace tvq::bench

#endif  // TVQ_TESTS_BENCH_OPTIONS_H_

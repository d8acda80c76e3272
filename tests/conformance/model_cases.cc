#include "tests/conformance/model_cases.h"

#include <string>
#include <utility>

namespace tvq::conformance {

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes(6);
  shapes[0].name = "single_head";
  shapes[1] = {.name = "three_heads_long_reach",
               .d_model = 18,
               .d_k = 6,
               .d_v = 10,
               .n_head = 3,
               .n_kv_head = 3,
               .block_len = 8,
               .mem_len = 21,
               .output_norm = true,
               .logit_scale = 0.7,
               .pe_lam = 5000};
  shapes[2] = {.name = "tied_absolute_short_reach",
               .d_model = 20,
               .block_len = 16,
               .mem_len = 5,
               .pe_abs = true,
               .tied = true,
               .output_norm = true,
               .logit_scale = 0.3};
  shapes[3] = {.name = "multi_query", .d_v = 7, .n_head = 4, .n_kv_head = 1, .mem_len = 9};
  shapes[4] = {.name = "grouped_small_chunk", .n_head = 4, .n_kv_head = 2, .prefill_chunk = 7};
  shapes[5] = {.name = "one_code_no_reach", .n_code = 1, .mem_len = 0};
  shapes.push_back({.name = "standard_multi_query",
                    .block = "standard",
                    .n_head = 4,
                    .n_kv_head = 1,
                    .pe_abs = true,
                    .output_norm = true});
  for (const auto& [form, kind] :
       {std::pair("toeplitz", "transformer_vq"), std::pair("rerope", "transformer_vq"),
        std::pair("toeplitz", "softmax_transformer")}) {
    const std::string prefix = std::string(form) + (kind[0] == 't' ? "_" : "_softmax_");
    shapes.push_back({.name = prefix + "gated_grouped_small_chunk",
                      .kind = kind,
                      .position_bias = form,
                      .n_head = 4,
                      .n_kv_head = 2,
                      .mem_len = 21,
                      .prefill_chunk = 7,
                      .pe_lam = 500});
    shapes.push_back({.name = prefix + "standard_multi_query_no_reach",
                      .kind = kind,
                      .block = "standard",
                      .position_bias = form,
                      .d_k = 6,
                      .n_head = 4,
                      .n_kv_head = 1,
                      .mem_len = 0});
  }
  for (const auto& [kind, prefix] :
       {std::pair("linear_transformer", "linear_"), std::pair("softmax_transformer", "softmax_"),
        std::pair("soft_codebook", "soft_"), std::pair("performer", "performer_")}) {
    for (Shape shape : {Shape{.name = "gated"},
                        Shape{.name = "gated_grouped_small_chunk",
                              .d_k = 7,
                              .n_head = 4,
                              .n_kv_head = 2,
                              .mem_len = 21,
                              .prefill_chunk = 7},
                        Shape{.name = "standard_three_heads",
                              .block = "standard",
                              .d_model = 18,
                              .d_k = 6,
                              .d_v = 10,
                              .n_head = 3,
                              .n_kv_head = 3,
                              .mem_len = 0,
                              .tied = true,
                              .output_norm = true,
                              .logit_scale = 0.7,
                              .d_ff = 37},
                        Shape{.name = "standard_multi_query",
                              .block = "standard",
                              .n_head = 4,
                              .n_kv_head = 1,
                              .pe_abs = true}}) {
      shape.kind = kind;
      shape.name = prefix + shape.name;
      shapes.push_back(std::move(shape));
    }
  }
  for (Shape shape : {Shape{.name = "grouped_small_chunk",
                            .kind = "llama",
                            .n_head = 4,
                            .n_kv_head = 2,
                            .prefill_chunk = 7,
                            .llama3 = true,
                            .all_biases = true},
                      Shape{.name = "three_heads_tied",
                            .kind = "qwen2",
                            .d_model = 18,
                            .d_k = 6,
                            .n_head = 3,
                            .n_kv_head = 3,
                            .tied = true,
                            .d_ff = 37},
                      Shape{.name = "multi_query_normed",
                            .kind = "qwen3",
                            .d_model = 20,
                            .d_k = 12,
                            .n_head = 4,
                            .rotary_part = 0.5},
                      // Heads are as wide as a group of int4: those of a ring are one matrix.
                      Shape{.name = "converted_grouped_small_chunk",
                            .kind = "llama",
                            .d_k = 32,
                            .n_head = 4,
                            .n_kv_head = 2,
                            .mem_len = 63,
                            .prefill_chunk = 7,
                            .llama3 = true,
                            .all_biases = true,
                            .ring = 64,
                            .wide = 128,
                            .trained = 140},
                      Shape{.name = "converted_multi_query_normed",
                            .kind = "qwen3",
                            .d_model = 20,
                            .d_k = 12,
                            .n_head = 4,
                            .mem_len = 63,
                            .rotary_part = 0.5,
                            .ring = 64,
                            .wide = 128,
                            .trained = 128},
                      Shape{.name = "converted_growing",
                            .kind = "qwen2",
                            .d_k = 32,
                            .n_head = 6,
                            .n_kv_head = 2,
                            .mem_len = 63,
                            .ring = 64,
                            .wide = 128,
                            .trained = 128,
                            .growing = true}}) {
    shape.name = "rotary_standard_" + shape.name;
    shape.d_v = shape.d_k;
    shape.pe_lam = 500;
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

namespace {

// Every backend this machine can run, and one that it cannot. The CUDA kernels on the CPU are slow:
// one order of threads.
std::vector<DeviceCase> Backends() {
  std::vector<DeviceCase> found{{"reference", ""}, {"cuda_stand_in", "shuffled"}, {"cuda", ""}};
  for (const std::string& isa : AvailableIsas()) found.push_back({"cpu", isa});
  found.push_back(kAmxStandIn);
  return found;
}

}  // namespace

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const DeviceCase& backend : Backends()) {
    for (const Shape& shape : Shapes()) {
      // Where it is slow: the odd sizes, an absolute position, shared heads, both ways to grow.
      const bool slow = backend.name == "cuda_stand_in" || backend.variant == "scalar" ||
                        backend.variant == kAmxStandIn.variant;
      const bool kept = shape.name == "three_heads_long_reach" || shape.pe_abs ||
                        shape.name.ends_with("grouped_small_chunk") ||
                        shape.name.ends_with("standard_three_heads") ||
                        shape.position_bias != "relative" || shape.growing;
      const bool on_gpu = shape.has_codes() || shape.linear() || shape.grows();
      // Tiles computed in software take longest, and are the products' affair.
      const bool tiles = backend.variant == kAmxStandIn.variant;
      if (tiles && (shape.position_bias != "relative" || shape.pe_abs)) continue;
      if (slow && !kept) continue;
      if (backend.name.starts_with("cuda") && !on_gpu) continue;
      cases.push_back({shape, backend});
    }
  }
  return cases;
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  return NameOf(info.param.backend) + "_" + info.param.shape.name;
}

INSTANTIATE_TEST_SUITE_P(Devices, ModelTest, testing::ValuesIn(Cases()), CaseName);

}  // namespace tvq::conformance

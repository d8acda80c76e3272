// Model files with int8 matrices: what they compute, and what is said of those that are wrong.
#include "models/runtime/int8_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "models/runtime/registry/registry.h"
#include "tests/kernels/int8_matrix.h"
#include "tests/models/runtime/random_weights.h"
#include "tests/models/runtime/safetensors_bytes.h"
#include "tests/models/runtime/temp_dir.h"

namespace tvq {
namespace {

using fixtures::SafetensorsBytes;
using fixtures::TempDir;
using ::testing::HasSubstr;

constexpr char kConfig[] = R"({"model_type": "transformer_vq", "vocab_size": 11,
    "d_model": 8, "d_k": 4, "d_v": 5, "n_code": 3, "n_layer": 1, "n_head": 2, "block_len": 4,
    "mem_len": 4, "tokenizer": {"type": "ids"}})";

struct FileTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};
using FileTensors = std::map<std::string, FileTensor>;

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string FileOf(const FileTensors& tensors) {
  nlohmann::json header;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  return SafetensorsBytes(header.dump(), data);
}

// Every tensor that a model asks for, by the source it is built from.
class Recorder : public WeightSource {
 public:
  absl::StatusOr<HostTensor> Get(std::string_view name, std::span<const int64_t> shape) override {
    absl::StatusOr<HostTensor> tensor = source_->Get(name, shape);
    tensors[std::string(name)] = *tensor;
    return tensor;
  }
  bool Has(std::string_view name) const override { return source_->Has(name); }
  std::string Digest() const override { return source_->Digest(); }

  std::map<std::string, HostTensor> tensors;

 private:
  std::unique_ptr<WeightSource> source_ = RandomWeights(1);
};

class Int8ModelTest : public ::testing::Test {
 protected:
  Int8ModelTest() {
    LoadOptions options;
    options.device = device_;
    Recorder recorder;
    EXPECT_TRUE(
        BuildModel(Config::Parse(kConfig, "config.json").value(), recorder, nullptr, options).ok());
    for (const auto& [name, tensor] : recorder.tensors) {
      const auto* floats = static_cast<const float*>(tensor.data);
      const std::vector<float> values(floats, floats + tensor.ElementCount());
      floats_[name] = {"F32", tensor.shape, BytesOf(values)};
      const bool matrix = tensor.shape.size() == 2 && name.ends_with(".weight");
      if (!matrix || name.ends_with("r_proj.weight")) {
        tensors_[name] = floats_[name];
        continue;
      }
      const Int8Matrix quantized = QuantizeRows(values, tensor.shape[0]);
      tensors_[name] = {"I8", tensor.shape, BytesOf(quantized.values)};
      tensors_[name + "_scale"] = {"F32", {tensor.shape[0]}, BytesOf(quantized.scales)};
      dequantized_[name] = BytesOf(Dequantized(quantized));
    }
  }

  absl::StatusOr<std::unique_ptr<Model>> Load(const FileTensors& tensors, DType dtype) {
    const TempDir dir;
    dir.Write("config.json", kConfig);
    dir.Write("model.safetensors", FileOf(tensors));
    LoadOptions options;
    options.device = device_;
    options.dtype = dtype;
    options.state_dtype = DType::kFloat32;
    return LoadModel(dir.path(), options);
  }

  std::vector<float> LogitsOf(const FileTensors& tensors, DType dtype) {
    absl::StatusOr<std::unique_ptr<Model>> model = Load(tensors, dtype);
    EXPECT_TRUE(model.ok()) << model.status();
    const std::unique_ptr<State> state = (*model)->NewState().value();
    Logits logits = (*model)->NewLogits(1).value();
    for (int32_t token : {1, 5, 2, 10, 3, 3, 7, 0}) {
      const DecodeRow row{state.get(), token, 0};
      EXPECT_TRUE((*model)->Decode({&row, 1}, &logits).ok());
    }
    std::vector<float> values(11);
    EXPECT_TRUE((*model)->ReadLogits(logits, 0, values).ok());
    return values;
  }

  // What loading says when tensor `name` is changed so, whatever the dtype.
  void Refuses(const std::string& name, const std::function<void(FileTensor&)>& change,
               const std::string& message,
               absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    FileTensors changed = tensors_;
    change(changed[name]);
    if (changed[name].dtype.empty()) changed.erase(name);
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt8, DType::kInt4}) {
      const absl::Status status = Load(changed, dtype).status();
      EXPECT_EQ(status.code(), code) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    }
  }

  std::shared_ptr<Device> device_ = MakeDevice("cpu", 1).value();
  FileTensors tensors_;                             // as int8
  FileTensors floats_;                              // the same before
  std::map<std::string, std::string> dequantized_;  // bytes of what int8 says, by name
};

TEST_F(Int8ModelTest, QuantizingAtLoadTimeGivesTheBitsOfAQuantizedFile) {
  EXPECT_EQ(LogitsOf(tensors_, DType::kInt8), LogitsOf(floats_, DType::kInt8));
  EXPECT_NE(LogitsOf(floats_, DType::kInt8), LogitsOf(floats_, DType::kBFloat16));
}

TEST_F(Int8ModelTest, OtherDtypesSeeScaleTimesValue) {
  FileTensors floats = floats_;
  for (const auto& [name, bytes] : dequantized_) floats[name].bytes = bytes;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt4}) {
    EXPECT_EQ(LogitsOf(tensors_, dtype), LogitsOf(floats, dtype));
  }
}

TEST_F(Int8ModelTest, InfoCountsWhatIsHeld) {
  const auto floats = Load(floats_, DType::kFloat32).value();
  const auto int8 = Load(tensors_, DType::kInt8).value();
  EXPECT_EQ(int8->info().dtype, DType::kInt8);
  EXPECT_EQ(int8->info().parameters, floats->info().parameters);
  EXPECT_LT(int8->info().weight_bytes, floats->info().weight_bytes);
  EXPECT_EQ(floats->info().weight_rounding, 0);
  // The largest of 8 to 11 normal numbers is about 1.5 to 2 standard deviations: half a step is 0.6
  // to 0.8% of one.
  EXPECT_GT(int8->info().weight_rounding, 0.004);
  EXPECT_LT(int8->info().weight_rounding, 0.012);
  EXPECT_NE(Load(tensors_, DType::kFloat32).value()->info().fingerprint,
            floats->info().fingerprint);
  EXPECT_EQ(Load(tensors_, DType::kFloat32).value()->info().fingerprint, int8->info().fingerprint);
}

TEST_F(Int8ModelTest, Int4IsOfProjectionsAlone) {
  const auto int8 = Load(floats_, DType::kInt8).value();
  const auto int4 = Load(floats_, DType::kInt4).value();
  EXPECT_EQ(int4->info().dtype, DType::kInt4);
  EXPECT_EQ(int4->info().parameters, int8->info().parameters);
  EXPECT_NE(LogitsOf(floats_, DType::kInt4), LogitsOf(floats_, DType::kInt8));
  // By a fourteenth of the largest of 8 to 10 normal numbers, about 1.5 to 2 standard deviations.
  EXPECT_GT(int4->info().weight_rounding, 0.08);
  EXPECT_LT(int4->info().weight_rounding, 0.2);
}

TEST_F(Int8ModelTest, ValuesMustFitInt4) {
  FileTensors changed = floats_;
  const float large = 0x1.8p60F;
  std::memcpy(changed["layers.0.o_proj.weight"].bytes.data() + 4, &large, sizeof(large));
  EXPECT_EQ(Load(changed, DType::kInt4).status().message(),
            "layers.0.o_proj.weight[1] is 1.72938e+18, too large for int4; load as float32");
  EXPECT_TRUE(Load(changed, DType::kInt8).ok());
}

TEST_F(Int8ModelTest, RecentValuesAreBFloat16UnlessAskedOtherwise) {
  for (const DType dtype : {DType::kInt8, DType::kInt4}) {
    LoadOptions options;
    options.device = device_;
    options.dtype = dtype;
    const Config config = Config::Parse(kConfig, "config.json").value();
    const auto model = BuildModel(config, *RandomWeights(1), nullptr, options).value();
    EXPECT_EQ(model->info().state_dtype, DType::kBFloat16);
    options.state_dtype = dtype;
    const absl::Status status = BuildModel(config, *RandomWeights(1), nullptr, options).status();
    EXPECT_EQ(status.message(),
              absl::StrCat("state_dtype is ", Name(dtype), ", must be float32 or bfloat16"));
  }
}

TEST_F(Int8ModelTest, ScalesMustBeThereAndFit) {
  Refuses(
      "layers.0.q_proj.weight_scale", [](FileTensor& t) { t.dtype.clear(); },
      "has no tensor \"layers.0.q_proj.weight_scale\"; it must be there, of shape [8]",
      absl::StatusCode::kNotFound);
  Refuses(
      "lm_head.weight_scale",
      [](FileTensor& t) {
        t.shape = {10};
        t.bytes.resize(40);
      },
      "tensor \"lm_head.weight_scale\" has shape [10]; it must be [11]");
  Refuses(
      "lm_head.weight_scale", [](FileTensor& t) { t.shape = {11, 1}; },
      "has shape [11, 1]; it must be [11]");
  Refuses(
      "embedding.weight_scale",
      [](FileTensor& t) {
        t.dtype = "BF16";
        t.bytes.resize(22);
      },
      "embedding.weight_scale has dtype BF16, must be F32");
}

TEST_F(Int8ModelTest, ScalesMustBeFiniteAndAboveZero) {
  const auto put = [](size_t index, float value) {
    return [=](FileTensor& t) { std::memcpy(t.bytes.data() + 4 * index, &value, 4); };
  };
  const std::string name = "layers.0.o_proj.weight_scale";
  Refuses(name, put(2, 0), "layers.0.o_proj.weight_scale[2] is 0, must be finite and above 0");
  Refuses(name, put(0, -0.5F), "[0] is -0.5, must be finite and above 0");
  Refuses(name, put(7, NAN), "[7] is nan, must be finite and above 0");
  Refuses(name, put(1, INFINITY), "[1] is inf, must be finite and above 0");
  Refuses(name, put(1, 3e36F), "[1] is 3e+36, must be so small that 127 times it is finite");
}

TEST_F(Int8ModelTest, ValuesMustBeSymmetric) {
  Refuses(
      "layers.0.v_proj.weight", [](FileTensor& t) { t.bytes[9] = '\x80'; },
      "layers.0.v_proj.weight[9] is -128, must be from -127 to 127");
}

TEST_F(Int8ModelTest, OtherTensorsMayNotBeInt8) {
  Refuses(
      "layers.0.u",
      [](FileTensor& t) {
        t.dtype = "I8";
        t.bytes.resize(8);
      },
      "layers.0.u: dtype is I8; it must be F32, BF16, F16 or F64");
  Refuses(
      "layers.0.k_proj.weight", [](FileTensor& t) { t.dtype = "U8"; },
      "layers.0.k_proj.weight: dtype is U8");
}

}  // namespace
}  // namespace tvq

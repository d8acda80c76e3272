// tvq-bench load: the time from a model directory in the page cache to a model that computes, per
// gigabyte of the directory's weights. The floor is what no way of loading can do without: every
// thread of the device reads its share of the weights once, and writes its share of what the model
// keeps of them into memory that is new to the process.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "kernels/numbers/parse_dtype.h"
#include "models/runtime/registry/registry.h"
#include "tests/bench/benches.h"
#include "tests/bench/folder.h"
#include "tests/bench/statistics.h"
#include "tests/bench/stored_model.h"

namespace tvq::bench {
namespace {

constexpr int64_t kPiece = 1 << 20;

struct Stored {
  std::string name;  // how matrices are stored, or the directory
  std::string dir;
  std::vector<std::string> files;
  int64_t bytes = 0;
};

struct Case {
  const Stored* stored;
  std::string dtype;
  int64_t weight_bytes = 0;  // that the model keeps
  std::vector<double> seconds, floor_seconds;
};

absl::StatusOr<Stored> Found(std::string name, std::string dir) {
  Stored stored{std::move(name), std::move(dir), {}};
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(stored.dir, error)) {
    if (file.path().extension() != ".safetensors") continue;
    stored.files.push_back(file.path());
    stored.bytes += static_cast<int64_t>(file.file_size());
  }
  if (!stored.files.empty()) return stored;
  return absl::NotFoundError(absl::StrCat(stored.dir, " holds no file *.safetensors"));
}

absl::Status ReadShares(const std::string& path, Device& device) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  const absl::Cleanup closer = [fd] { close(fd); };
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
  std::atomic<int64_t> read = 0;
  device.RunOnHost((size + kPiece - 1) / kPiece, [&](int64_t i) {
    static thread_local std::vector<char> piece(kPiece);
    read += std::max<ssize_t>(0, pread(fd, piece.data(), kPiece, i * kPiece));
  });
  if (read == size) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("could not read all of ", path));
}

// Seconds, with `weight_bytes` to write.
absl::StatusOr<double> MeasureFloor(const Stored& stored, int64_t weight_bytes, Device& device) {
  const std::vector<char> bytes(kPiece, 1);
  const Stopwatch watch;
  for (const std::string& file : stored.files) {
    if (absl::Status s = ReadShares(file, device); !s.ok()) return s;
  }
  const int64_t pieces = (weight_bytes + kPiece - 1) / kPiece;
  absl::StatusOr<Buffer> memory = device.Allocate(static_cast<size_t>(pieces * kPiece));
  if (!memory.ok()) return memory.status();
  std::atomic<bool> copied = true;
  device.RunOnHost(pieces, [&](int64_t i) {
    if (!device.CopyFromHost(memory->as<char>() + i * kPiece, bytes.data(), kPiece).ok()) {
      copied = false;
    }
  });
  if (!copied) return absl::UnavailableError("could not write to the device's memory");
  return watch.Seconds();
}

// Loads and checks what was loaded: its weights' size, and the report's head of the first.
absl::Status CheckCase(Case& c, Options options, std::optional<Json>& report) {
  options.model_dir = c.stored->dir;
  options.preset.clear();
  options.dtype = c.dtype;
  absl::StatusOr<Subject> subject = OpenSubject(options);
  if (!subject.ok()) return subject.status();
  if (!report.has_value()) report = StartReport("load", options, *subject);
  c.weight_bytes = subject->model->info().weight_bytes;
  return ValidateInto(*subject, *report);
}

absl::Status RunCase(Case& c, const std::shared_ptr<Device>& device) {
  const absl::StatusOr<DType> dtype = ParseDType(c.dtype);
  if (!dtype.ok()) return dtype.status();
  LoadOptions options;
  options.device = device;
  options.dtype = *dtype;
  const absl::StatusOr<double> floor = MeasureFloor(*c.stored, c.weight_bytes, *device);
  if (!floor.ok()) return floor.status();
  const Stopwatch watch;
  const auto model = LoadModel(c.stored->dir, options);
  const double seconds = watch.Seconds();
  if (!model.ok()) return model.status();
  c.floor_seconds.push_back(*floor);
  c.seconds.push_back(seconds);
  return absl::OkStatus();
}

Json ReportCase(const Case& c) {
  const double gigabytes = static_cast<double>(c.stored->bytes) / 1e9;
  std::vector<double> ratios;
  ratios.reserve(c.seconds.size());
  for (size_t i = 0; i < c.seconds.size(); ++i) ratios.push_back(c.seconds[i] / c.floor_seconds[i]);
  const double median = Median(c.seconds) / gigabytes, floor = Median(c.floor_seconds) / gigabytes;
  std::printf("%-10s %8.3f GB as %-9s %7.3f s, %6.3f s/GB (%.3f to %.3f); floor %6.3f, x %.2f\n",
              c.stored->name.c_str(), gigabytes, c.dtype.c_str(), Median(c.seconds), median,
              Quantile(c.seconds, 0) / gigabytes, Quantile(c.seconds, 1) / gigabytes, floor,
              Median(ratios));
  return {{"stored", c.stored->name},
          {"file_bytes", c.stored->bytes},
          {"dtype", c.dtype},
          {"weight_bytes", c.weight_bytes},
          {"seconds_per_gigabyte",
           {{"median", median},
            {"min", Quantile(c.seconds, 0) / gigabytes},
            {"max", Quantile(c.seconds, 1) / gigabytes}}},
          {"floor_seconds_per_gigabyte", floor},
          {"times_floor", Median(ratios)}};
}

// The preset, stored in every way that is asked for.
absl::StatusOr<std::vector<Stored>> StorePreset(const Options& options, const Folder& folder) {
  absl::StatusOr<TransformerConfig> config = PresetConfig(options.preset);
  if (!config.ok()) return config.status();
  std::vector<Stored> all;
  for (const std::string& name : options.stored) {
    const std::string dir = absl::StrCat(folder.path(), "/", name);
    std::filesystem::create_directory(dir);
    const HostDType dtype = name == "bfloat16" ? HostDType::kBF16 : HostDType::kF32;
    if (absl::Status s = StoreRandom(*config, dtype, dir); !s.ok()) return s;
    absl::StatusOr<Stored> found = Found(name, dir);
    if (!found.ok()) return found.status();
    all.push_back(*std::move(found));
  }
  return all;
}

absl::StatusOr<std::vector<Stored>> FindModel(const std::string& dir) {
  absl::StatusOr<Stored> found = Found(dir, dir);
  if (!found.ok()) return found.status();
  return std::vector<Stored>{*std::move(found)};
}

}  // namespace

absl::Status BenchLoad(const Options& options) {
  absl::StatusOr<Folder> folder = Folder::Create(options.session_dir);
  if (!folder.ok()) return folder.status();
  absl::StatusOr<std::vector<Stored>> stored =
      options.preset.empty() ? FindModel(options.model_dir) : StorePreset(options, *folder);
  if (!stored.ok()) return stored.status();
  std::vector<Case> cases;
  for (const Stored& s : *stored) {
    for (const std::string& dtype : options.dtypes) cases.push_back({&s, dtype, 0, {}, {}});
  }
  std::optional<Json> report;
  for (Case& c : cases) {
    if (absl::Status s = CheckCase(c, options, report); !s.ok()) return s;
  }
  absl::StatusOr<std::unique_ptr<Device>> made =
      MakeDevice(options.device, options.threads, options.isa);
  if (!made.ok()) return made.status();
  const std::shared_ptr<Device> device = *std::move(made);
  for (int64_t round = 0; round < options.rounds; ++round) {
    for (Case& c : cases) {
      if (absl::Status s = RunCase(c, device); !s.ok()) return s;
    }
  }
  for (const Case& c : cases) (*report)["cases"].push_back(ReportCase(c));
  return WriteReport(*report, options.json);
}

}  // namespace tvq::bench

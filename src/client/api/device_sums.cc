#include "client/api/device_sums.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/crc_combine.h"

namespace verbena::client {
namespace {

using memory::cuda::DeviceCrc;

Outcome<> go_on(const std::stop_token& stop) {
  if (stop.stop_requested()) return fault(ErrorCode::cancelled, "cancelled by the caller");
  return {};
}

// What a call waits at most for a kernel, which most drivers have compiled long before: its bytes are read back then.
constexpr std::chrono::milliseconds kernel_wait_max{1000};

// The kernel of a lane, loaded when it is needed first. Null: there is none, or not in time: then it is tried again
// later.
Outcome<DeviceCrc*> kernel_of(DeviceCopies& copies, Algorithm algorithm, const std::stop_token& stop) {
  using Kind = memory::cuda::Fault::Kind;
  DeviceLane& lane = copies.lane();
  if (lane.no_kernel || !memory::cuda::has_crc_kernel(algorithm)) return nullptr;
  const auto found = std::ranges::find_if(lane.kernels, [&](const auto& one) { return one->algorithm() == algorithm; });
  if (found != lane.kernels.end()) return found->get();
  auto loaded = DeviceCrc::load(*lane.queue, algorithm, deadline_in(std::min(copies.limit(), kernel_wait_max)), stop);
  if (!loaded) {
    if (loaded.error().kind == Kind::cancelled) return fault(std::move(loaded).error());
    lane.no_kernel = loaded.error().kind != Kind::late;
    return nullptr;
  }
  lane.kernels.push_back(std::move(*loaded));
  return lane.kernels.back().get();
}

// A part of a range that one launch takes.
struct Piece {
  size_t range = 0;
  uint64_t address = 0, size = 0;
  size_t blocks = 0;
};

std::vector<Piece> pieces_of(Algorithm algorithm, std::span<const DeviceRange> ranges) {
  // One block less than there is room for: a piece that is not aligned has one more.
  constexpr uint64_t piece_max = (memory::cuda::crc_results_max - 1) * memory::cuda::crc_block;
  std::vector<Piece> out;
  for (size_t i = 0; i < ranges.size(); ++i) {
    for (uint64_t at = 0; at < ranges[i].size; at += piece_max) {
      const uint64_t address = ranges[i].address + at, size = std::min(piece_max, ranges[i].size - at);
      out.push_back({i, address, size, memory::cuda::crc_blocks(algorithm, address, size)});
    }
  }
  return out;
}

std::string base64_of(Algorithm algorithm, uint64_t crc) {
  std::vector<std::byte> raw(digest_size(algorithm));
  for (size_t i = 0; i < raw.size(); ++i) raw[i] = std::byte(crc >> (8 * (raw.size() - 1 - i)));
  return to_base64(raw);
}

// As many pieces as the module has room for at once. Nothing: the driver does not launch the kernel.
Outcome<std::optional<DeviceSums>> by_kernel(DeviceCopies& copies, DeviceCrc& kernel,
                                             std::span<const DeviceRange> ranges, const std::stop_token& stop) {
  const Algorithm algorithm = kernel.algorithm();
  const std::vector<Piece> pieces = pieces_of(algorithm, ranges);
  std::vector<uint64_t> crcs(ranges.size());
  for (size_t next = 0; next < pieces.size();) {
    OUT_TRY(go_on(stop));
    size_t end = next, blocks = 0;
    for (; end < pieces.size() && blocks + pieces[end].blocks <= memory::cuda::crc_results_max; ++end) {
      if (!kernel.launch(pieces[end].address, pieces[end].size, blocks)) return std::nullopt;
      blocks += pieces[end].blocks;
    }
    const MutableBytes found = copies.lane().bytes.first(blocks * sizeof(uint64_t));
    OUT_TRY(copies.read(found, kernel.results()));
    OUT_TRY(copies.mark(0));
    OUT_TRY(copies.wait(0));
    std::span<const uint64_t> registers(reinterpret_cast<const uint64_t*>(found.data()), blocks);
    for (; next < end; ++next) {
      const Piece& piece = pieces[next];
      const uint64_t crc = memory::cuda::join_crc(algorithm, piece.address, piece.size, registers.first(piece.blocks));
      crcs[piece.range] = combine_crcs_of(algorithm, crcs[piece.range], crc, piece.size);
      registers = registers.subspan(piece.blocks);
    }
  }
  DeviceSums out{.base64 = {}, .by = DeviceVerified::kernel};
  for (const uint64_t crc : crcs) out.base64.push_back(base64_of(algorithm, crc));
  return out;
}

// One half of the ring is read while the device copies the other.
Outcome<std::string> read_back(DeviceCopies& copies, Algorithm algorithm, const DeviceRange& range,
                               const std::stop_token& stop) {
  Digest digest(algorithm);
  const auto part = [&](uint64_t number) {
    const uint64_t at = number * DeviceLane::half;
    return copies.lane().part(number % 2).first(std::min<uint64_t>(DeviceLane::half, range.size - at));
  };
  const auto fetch = [&](uint64_t number) -> Outcome<> {
    OUT_TRY(copies.read(part(number), range.address + number * DeviceLane::half));
    return copies.mark(number % 2);
  };
  const uint64_t count = (range.size + DeviceLane::half - 1) / DeviceLane::half;
  if (count != 0) OUT_TRY(fetch(0));
  for (uint64_t i = 0; i < count; ++i) {
    OUT_TRY(go_on(stop));
    if (i + 1 < count) OUT_TRY(fetch(i + 1));
    OUT_TRY(copies.wait(i % 2));
    digest.update(part(i));
  }
  return digest.finish_base64();
}

}  // namespace

Outcome<DeviceSums> device_sums(DeviceCopies& copies, Algorithm algorithm, std::span<const DeviceRange> ranges,
                                const std::stop_token& stop) {
  OUT_ASSIGN(DeviceCrc* const kernel, kernel_of(copies, algorithm, stop));
  if (kernel != nullptr) {
    OUT_ASSIGN(auto sums, by_kernel(copies, *kernel, ranges, stop));
    if (sums) return std::move(*sums);
    copies.lane().no_kernel = true;
  }
  DeviceSums out{.base64 = {}, .by = DeviceVerified::read_back};
  for (const DeviceRange& range : ranges) {
    OUT_ASSIGN(auto sum, read_back(copies, algorithm, range, stop));
    out.base64.push_back(std::move(sum));
    out.read_back_bytes += range.size;
  }
  return out;
}

}  // namespace verbena::client

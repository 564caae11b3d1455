// Memory of a device that the server maps, so that the device copies for it (fabric/device.h).
#pragma once

#include <mutex>
#include <vector>

#include "client/native/session.h"
#include "memory/cuda_physical.h"
#include "native/wire/device.h"

namespace verbena::client {

class NativeStream;
class NativeStreams;

// Thread-safe. Its end tells the servers, and waits until they have unmapped it: the memory may be freed then.
class NativeDevice final : public NativeMemory {
 public:
  using Pieces = std::vector<std::shared_ptr<const memory::cuda::Physical>>;
  static constexpr size_t pieces_max = native::wire::device_pieces_max;

  // `exported` describes the whole allocation, which begins at this address.
  NativeDevice(const memory::cuda::Exported& exported, uint64_t begin) : exported_(exported), begin_(begin) {}
  // Side by side, in order, at least one and at most pieces_max.
  NativeDevice(const memory::cuda::DeviceName& device, Pieces pieces,
               memory::cuda::Platform platform = memory::cuda::Platform::cuda);
  ~NativeDevice() override;

  // Addresses of the device.
  MutableBytes bytes() const override {
    return {reinterpret_cast<std::byte*>(static_cast<uintptr_t>(begin_)), exported_.size};
  }
  // What the server maps is still what is at these addresses. Pieces may be replaced there: an allocation may not.
  bool is_there(MutableBytes part) const;
  const NativeDevice* device() const override { return this; }
  bool by_handle() const { return pieces_.empty(); }

  // The number by which the server knows it on that stream; shares it there first, if needed. unsupported: the server
  // lets no device copy, or has refused this allocation a short while ago; slow_down: its limits.
  Result<uint64_t> number_on(NativeStreams& streams, NativeStream& stream, Deadline deadline) const;

 private:
  struct Share {
    std::weak_ptr<NativeStreams> streams;
    NativeStream* stream = nullptr;
    uint64_t number = 0;
  };
  // Given up before its answer: the server may map it all the same.
  struct Unanswered {
    std::weak_ptr<NativeStreams> streams;
    NativeStream* stream = nullptr;
    uint64_t request = 0;
  };
  using Files = std::vector<Fd>;
  Result<Files> files() const;
  Result<native::wire::Device> described(fabric::Link& link, const Files& files) const;
  Result<uint64_t> share_on(NativeStreams& streams, NativeStream& stream, Deadline deadline) const;
  Result<uint64_t> late_number(NativeStream& stream) const;

  const memory::cuda::Exported exported_;
  const Pieces pieces_;  // empty: an allocation by its handle
  const uint64_t begin_;
  mutable std::mutex mutex_;
  mutable std::vector<Share> shares_;
  mutable std::vector<Unanswered> unanswered_;
  mutable Deadline refused_until_{};
};

}  // namespace verbena::client

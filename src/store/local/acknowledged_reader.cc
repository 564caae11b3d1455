// The reader of an object that the index does not have yet: reads from the memory that it was acknowledged from.
#include <cstring>

#include "store/local/write_behind.h"

namespace verbena::store::local {
namespace {

// What a PUT has brought lies in the arena. What a start has brought back from the log does not, and RDMA reads from
// the arena alone: its bytes are copied there.
class AcknowledgedReader final : public ObjectReader {
 public:
  AcknowledgedReader(AcknowledgedPtr object, memory::Arena& arena)
      : object_(std::move(object)),
        arena_(arena),
        in_arena_(arena.contains(object_->bytes.bytes.data(), object_->bytes.bytes.size())) {}
  const ObjectInfo& info() const override { return object_->info; }

  Task<Result<memory::Chunk>> read(uint64_t offset, size_t length) override {
    if (length == 0 || length > chunk_size_max) co_return fail(Errc::invalid_argument, "reader: length");
    const Bytes bytes = part(offset, length);
    if (bytes.empty()) co_return fail(Errc::invalid_range, "reader: range");
    if (in_arena_) co_return memory::Chunk{.lease = {}, .bytes = bytes, .shared = object_, .charge = {}};
    VB_CO_ASSIGN(memory::Lease lease, arena_.lease(length));
    std::memcpy(lease.data(), bytes.data(), length);
    const Bytes copy = lease.bytes().first(length);
    co_return memory::Chunk{.lease = std::move(lease), .bytes = copy, .shared = {}, .charge = {}};
  }

  memory::Chunk peek(uint64_t offset, uint64_t length) const override {
    const Bytes bytes = view(offset, length);
    if (bytes.empty()) return {};
    return {.lease = {}, .bytes = bytes, .shared = object_, .charge = {}};
  }

  Bytes view(uint64_t offset, uint64_t length) const override { return in_arena_ ? part(offset, length) : Bytes(); }

 private:
  Bytes part(uint64_t offset, uint64_t length) const {
    const Bytes bytes = object_->bytes.bytes;
    if (length == 0 || offset >= bytes.size() || length > bytes.size() - offset) return {};
    return bytes.subspan(offset, length);
  }

  const AcknowledgedPtr object_;
  memory::Arena& arena_;
  const bool in_arena_;
};

}  // namespace

std::shared_ptr<ObjectReader> open_acknowledged(AcknowledgedPtr object, memory::Arena& arena) {
  return std::make_shared<AcknowledgedReader>(std::move(object), arena);
}

}  // namespace verbena::store::local

// The reader of an object that the index does not have yet: reads from the memory that it was acknowledged from.
#include "store/local/write_behind.h"

namespace verbena::store::local {
namespace {

class AcknowledgedReader final : public ObjectReader {
 public:
  explicit AcknowledgedReader(AcknowledgedPtr object) : object_(std::move(object)) {}
  const ObjectInfo& info() const override { return object_->info; }

  Task<Result<memory::Chunk>> read(uint64_t offset, size_t length) override {
    if (length == 0 || length > chunk_size_max) co_return fail(Errc::invalid_argument, "reader: length");
    memory::Chunk chunk = peek(offset, length);
    if (chunk.bytes.empty()) co_return fail(Errc::invalid_range, "reader: range");
    co_return chunk;
  }

  memory::Chunk peek(uint64_t offset, uint64_t length) const override {
    const Bytes bytes = object_->bytes.bytes;
    if (length == 0 || offset >= bytes.size() || length > bytes.size() - offset) return {};
    return {{}, bytes.subspan(offset, length), object_};
  }

 private:
  const AcknowledgedPtr object_;
};

}  // namespace

std::shared_ptr<ObjectReader> open_acknowledged(AcknowledgedPtr object) {
  return std::make_shared<AcknowledgedReader>(std::move(object));
}

}  // namespace verbena::store::local

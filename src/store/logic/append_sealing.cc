#include "store/logic/append_sealing.h"

#include <utility>

namespace verbena::store {
namespace {

// The lower end of a sealing writer: appends to a blob.
class BlobBelow final : public ObjectWriter {
 public:
  explicit BlobBelow(std::shared_ptr<BlobWriter> blob) : blob_(std::move(blob)) {}
  Task<Result<void>> append(memory::Chunk chunk) override { return blob_->append(std::move(chunk)); }
  Task<Result<ObjectInfo>> commit(ObjectInfo info, CommitConditions) override { co_return info; }

 private:
  std::shared_ptr<BlobWriter> blob_;
};

Salt random_part_salt() {
  Salt salt;
  fill_random(salt);
  return salt;
}

}  // namespace

Result<std::vector<NumberedPart>> numbered_parts(const Attributes& object, bool listed,
                                                 const std::vector<StoredPart>& parts) {
  std::vector<NumberedPart> out;
  if (!listed) {
    VB_ASSIGN(const Salt salt, read_salt(object));
    out.push_back({0, {parts.empty() ? 0 : parts.front().info.size, salt}});
    return out;
  }
  out.reserve(parts.size());
  for (const StoredPart& one : parts) {
    VB_ASSIGN(const Salt salt, read_salt(one.info.attributes));
    out.push_back({one.info.number, {one.info.size, salt}});
  }
  return out;
}

Result<std::shared_ptr<ObjectReader>> open_sealed_parts(const AppendSeal& seal, const Secret& object_key,
                                                        const std::vector<StoredPart>& parts,
                                                        std::shared_ptr<ObjectReader> sealed, std::string name) {
  VB_ASSIGN(const auto numbered, numbered_parts({}, true, parts));
  std::vector<SealedPart> plain;
  plain.reserve(numbered.size());
  for (const NumberedPart& one : numbered) plain.push_back(one.part);
  return make_opening_reader(std::move(sealed), seal.arena(), object_key, std::move(plain), std::move(name));
}

SealedPartWriter::SealedPartWriter(const AppendSeal& seal, const Secret& object_key, std::shared_ptr<BlobWriter> blob,
                                   std::optional<uint64_t> size)
    : salt_(random_part_salt()),
      writer_(
          make_sealing_writer(std::make_unique<BlobBelow>(std::move(blob)), seal.arena(), object_key, salt_, size)) {}

Task<Result<Attributes>> SealedPartWriter::commit(uint64_t size) {
  ObjectInfo info;
  info.size = size;
  CommitConditions none;
  VB_CO_TRY(co_await writer_->commit(std::move(info), std::move(none)));
  co_return Attributes{{std::string(salt_attribute), std::string(as_text(salt_))}};
}

}  // namespace verbena::store

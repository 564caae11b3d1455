// Encrypted objects in a store: a writer that encrypts the bytes written and a reader that decrypts them. Keys are
// bytes here; s3/objects/encryption.h says where they come from and how they are stored.
//
// A part (of a multipart object; any other object is one part) is stored as its bytes in AES-256-GCM, in blocks of 64
// KiB at the offsets of the plain ones, followed by the blocks' tags. So a range reads its own blocks, and they stay
// aligned. Each part has a key of its own, made from the object's key and the part's random salt; under it the block's
// number is the nonce, which therefore never repeats. Bytes that were changed, cut, moved within their part, or taken
// from another part or object, do not decrypt. The caller authenticates the list of parts: their sizes and salts, their
// order and the end of the last.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/secret.h"
#include "store/store.h"

namespace verbena::store {

inline constexpr size_t object_key_size = 32;
inline constexpr uint64_t sealed_block_size = 64 * KiB;
inline constexpr size_t sealed_tag_size = 16;

using Salt = std::array<std::byte, 16>;

struct SealedPart {
  uint64_t size = 0;  // bytes of the plain part
  Salt salt{};
};

// The attribute, of a part or of an object of one part, that holds its salt; it is on disk.
inline constexpr std::string_view salt_attribute = "sse-salt";
Result<Salt> read_salt(const Attributes& attributes);  // corrupt_object: it is missing

// A part in the object's list.
struct NumberedPart {
  int number = 0;  // 0: the object is one part
  SealedPart part;
};
// The list of an object's parts, or of an object that is one part. corrupt_object.
Result<std::vector<NumberedPart>> numbered_parts(const ObjectInfo& info);

// The stored bytes of a part of `size` plain bytes.
constexpr uint64_t sealed_size(uint64_t size) {
  return size + (size + sealed_block_size - 1) / sealed_block_size * sealed_tag_size;
}

// A writer of plain bytes; `info.size` at commit counts plain bytes. A chunk that is not shared is encrypted in place.
// `size`: how many bytes will come, if known; the last chunk then waits for the tags.
std::unique_ptr<ObjectWriter> make_sealing_writer(std::unique_ptr<ObjectWriter> below, memory::Arena& arena,
                                                  const Secret& object_key, const Salt& salt,
                                                  std::optional<uint64_t> size = {});

// A reader whose offsets count plain bytes. read() fails with corrupt_object if a block does not decrypt. Fails at once
// with corrupt_object if the parts do not add up to the stored size. `name`, bucket and key, is for the log.
Result<std::shared_ptr<ObjectReader>> make_opening_reader(std::shared_ptr<ObjectReader> below, memory::Arena& arena,
                                                          const Secret& object_key, std::vector<SealedPart> parts,
                                                          std::string name);

}  // namespace verbena::store

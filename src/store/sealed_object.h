// Objects that lie encrypted in a store: a writer that seals what passes and a reader that opens it. Keys are bytes
// here; whose they are and how they are kept is told in s3/objects/encryption.h.
//
// A part (of a multipart object; any other object is one part) is stored as its bytes in AES-256-GCM, in blocks of
// 64 KiB that begin where the plain ones would, and behind them the blocks' tags. So a range reads its own blocks, and
// they stay aligned. Each part has a key of its own, made from the object's key and the part's random salt; under it
// the block's number is the nonce, which therefore never comes twice. What was changed, cut, moved within its part, or
// taken from another part or object, does not open. That the list of parts is the right one, their sizes and salts,
// their order and the end of the last, is for the caller to authenticate.
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

// The attribute of a part, or of an object that is one, that has its salt; it is on disk.
inline constexpr std::string_view salt_attribute = "sse-salt";
Result<Salt> read_salt(const Attributes& attributes);  // corrupt_object: there is none

// As the object's list has it.
struct NumberedPart {
  int number = 0;  // 0: the object is one part
  SealedPart part;
};
// The list of an object with its parts, or of one that is one. corrupt_object.
Result<std::vector<NumberedPart>> numbered_parts(const ObjectInfo& info);

// Bytes that a part of `size` bytes takes.
constexpr uint64_t sealed_size(uint64_t size) {
  return size + (size + sealed_block_size - 1) / sealed_block_size * sealed_tag_size;
}

// Takes plain bytes; `info.size` of its commit is that of the plain bytes. A chunk whose memory is its holder's alone
// is sealed in place.
// `size`: how many bytes will come, if that is known; the last chunk then waits for the tags.
std::unique_ptr<ObjectWriter> make_sealing_writer(std::unique_ptr<ObjectWriter> below, memory::Arena& arena,
                                                  const Secret& object_key, const Salt& salt,
                                                  std::optional<uint64_t> size = {});

// Offsets are those of the plain bytes. Its read() is corrupt_object where a block does not open. corrupt_object at
// once: the parts are not as long as what is stored. `name`, bucket and key, is for the log.
Result<std::shared_ptr<ObjectReader>> make_opening_reader(std::shared_ptr<ObjectReader> below, memory::Arena& arena,
                                                          const Secret& object_key, std::vector<SealedPart> parts,
                                                          std::string name);

}  // namespace verbena::store

// Digests over a body while it passes.
#pragma once

#include <boost/asio/steady_timer.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/md5.h"
#include "base/task.h"
#include "memory/stream.h"
#include "store/store.h"

namespace verbena::s3 {

class BodyDigests {
 public:
  void want(Algorithm algorithm);  // among the checksums; before the first byte; may be repeated
  void want_md5();                 // for an entity tag or Content-MD5: not among the checksums
  bool wants(Algorithm algorithm) const;
  // Before the first byte: where the source hashes its bytes anyway, it computes the MD5, too. The digests must then
  // stay in their place.
  void leave_md5_to(memory::Source& body);
  // Likewise a CRC32C where the store computes it anyway. The writer is used until finish().
  void leave_crc32c_to(const store::ObjectWriter& writer);
  void update(Bytes bytes);
  // Ends all digests.
  void finish();
  const std::string& md5() const { return md5_; }  // raw; empty when not wanted
  const std::vector<store::Checksum>& checksums() const { return checksums_; }

  // update() in two halves, so that the MD5s of several bodies can be computed together (Md5::update_all).
  void update_all_but_md5(Bytes bytes);
  // Null: not wanted, or left to the source.
  Md5* running_md5() { return running_md5_ && !md5_is_left_ ? &*running_md5_ : nullptr; }

 private:
  std::vector<Digest> running_;
  std::optional<Md5> running_md5_;
  bool md5_is_checksum_ = false;
  bool md5_is_left_ = false;                             // to the source
  const store::ObjectWriter* crc32c_left_to_ = nullptr;  // null: to none
  std::string md5_;
  std::vector<store::Checksum> checksums_;
};

// Digests the bytes of a large body on a helper thread, while the next bytes arrive: MD5 is slower than a network. A
// helper takes the waiting pieces of several bodies at once, and computes their MD5s together. Used on one core; keeps
// itself and the memory that a helper reads alive.
class DigestsAside : public std::enable_shared_from_this<DigestsAside> {
 public:
  static constexpr size_t piece_size = 256 * KiB;     // read and digested alternately
  static constexpr uint64_t body_size_min = 1 * MiB;  // size from which a helper pays off

  static std::shared_ptr<DigestsAside> make(BodyDigests digests, boost::asio::any_io_executor executor) {
    return std::shared_ptr<DigestsAside>(new DigestsAside(std::move(digests), std::move(executor)));
  }
  // Bytes of `lease`. Starts when earlier ones are done, and returns then.
  Task<void> add(Bytes bytes);
  Task<void> done();

  // Both may be used by the caller after done().
  memory::Lease lease;
  BodyDigests digests;

 private:
  DigestsAside(BodyDigests d, boost::asio::any_io_executor executor)
      : digests(std::move(d)), idle_(std::move(executor), boost::asio::steady_timer::time_point::max()) {}
  static void digest_what_waits();
  boost::asio::steady_timer idle_;
  bool busy_ = false;
};

}  // namespace verbena::s3

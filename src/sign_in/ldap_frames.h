// The messages in a directory's stream of bytes, as far as the tags of their operations (RFC 4511, 4.1.1). What libldap
// 2.5 would not free must not reach it: the notice of disconnection, the only unsolicited message that there is, and
// its own request, after an answer that is none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena::sign_in {

class LdapFrames {
 public:
  // The next bytes of the stream. False, from then on: they are no LDAP message from a server, or one of id 0.
  bool accept(std::span<const std::byte> bytes);

 private:
  enum class Part : uint8_t { message, id_header, id, operation, rest, wrong };
  enum class Field : uint8_t { tag, length, long_length };
  // The next byte of a tag and a length. True: both are complete.
  bool read_header(uint8_t byte);
  Part next(uint8_t byte);
  Part after_header() const;

  Part part_ = Part::message;
  Field field_ = Field::tag;
  uint8_t tag_ = 0;
  uint8_t length_bytes_ = 0;  // of the length, still to come
  uint64_t length_ = 0;
  uint8_t id_bytes_ = 0;  // of the id, still to come
  bool is_zero_ = true;   // the id so far
  uint64_t left_ = 0;     // of the message
};

}  // namespace verbena::sign_in

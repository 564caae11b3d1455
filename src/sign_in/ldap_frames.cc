#include "sign_in/ldap_frames.h"

#include <algorithm>
#include <array>

namespace verbena::sign_in {
namespace {

constexpr uint8_t sequence = 0x30, integer = 0x02, long_form = 0x80;
constexpr uint8_t length_bytes_max = 4, id_bytes_max = 4;  // ids are below 2^31
// Answers to a bind, a search (an entry, the end, a reference) and an extended operation.
constexpr std::array<uint8_t, 5> answers = {0x61, 0x64, 0x65, 0x73, 0x78};

}  // namespace

bool LdapFrames::accept(std::span<const std::byte> bytes) {
  while (!bytes.empty() && part_ != Part::wrong) {
    if (part_ == Part::rest) {
      const auto skipped = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size()));
      left_ -= skipped;
      bytes = bytes.subspan(skipped);
    } else {
      if (part_ != Part::message && left_-- == 0) part_ = Part::wrong;  // the message ends within a field
      if (part_ != Part::wrong) part_ = next(std::to_integer<uint8_t>(bytes.front()));
      bytes = bytes.subspan(1);
    }
    if (part_ == Part::rest && left_ == 0) part_ = Part::message;
  }
  return part_ != Part::wrong;
}

bool LdapFrames::read_header(uint8_t byte) {
  if (field_ == Field::tag) {
    tag_ = byte;
    field_ = Field::length;
    return false;
  }
  if (field_ == Field::length && byte >= long_form) {
    length_ = 0;
    length_bytes_ = byte & (long_form - 1);
    field_ = Field::long_length;
    return false;
  }
  length_ = field_ == Field::length ? byte : length_ << 8 | byte;
  if (field_ == Field::long_length && --length_bytes_ != 0) return false;
  field_ = Field::tag;
  return true;
}

LdapFrames::Part LdapFrames::next(uint8_t byte) {
  if (part_ == Part::id) {
    is_zero_ = is_zero_ && byte == 0;
    if (--id_bytes_ != 0) return Part::id;
    return is_zero_ ? Part::wrong : Part::operation;
  }
  if (!read_header(byte)) {
    const bool is_bad = field_ == Field::long_length && (length_bytes_ == 0 || length_bytes_ > length_bytes_max);
    return is_bad ? Part::wrong : part_;
  }
  const Part after = after_header();
  if (part_ == Part::message) left_ = length_;
  if (after == Part::id) {
    id_bytes_ = static_cast<uint8_t>(length_);
    is_zero_ = true;
  }
  return after;
}

LdapFrames::Part LdapFrames::after_header() const {
  if (part_ == Part::message) return tag_ == sequence ? Part::id_header : Part::wrong;
  if (length_ > left_) return Part::wrong;
  if (part_ == Part::id_header) {
    return tag_ == integer && length_ != 0 && length_ <= id_bytes_max ? Part::id : Part::wrong;
  }
  return std::ranges::find(answers, tag_) != answers.end() ? Part::rest : Part::wrong;
}

}  // namespace verbena::sign_in

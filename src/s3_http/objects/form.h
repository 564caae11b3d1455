// multipart/form-data (RFC 7578) as browsers send it to POST an object: fields, then one file. Fields are read into
// memory under a limit; the file is a Source, so that it need not fit into memory.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memory/stream.h"

namespace verbena::s3 {

struct Form {
  static constexpr size_t fields_bytes_max = 20'000;                // everything before the file (AWS)
  static constexpr size_t filled_bytes_max = 2 * fields_bytes_max;  // values with the file's name filled in
  static constexpr size_t fields_max = 100;

  std::vector<std::pair<std::string, std::string>> fields;  // names unchanged, in order
  std::string file_name;                                    // of the file; without directories
  std::string file_type;                                    // the file part's own Content-Type; empty for none

  // The field of that name, in any case. At most one exists.
  std::optional<std::string_view> get(std::string_view name) const;
};

// The header that the field stands for, if its name differs: "acl", "tagging". Else the name.
std::string_view header_of_field(std::string_view field);

// The boundary of a Content-Type header. nullopt when it is not multipart/form-data or has no valid boundary.
std::optional<std::string> form_boundary(std::string_view content_type);

// Reads a form from a body. First read_fields(), then the file as a Source; what follows the file is dropped.
class FormReader : public memory::Source {
 public:
  static constexpr size_t buffer_size = 64 * KiB;  // of the body that is held

  FormReader(memory::Source& body, std::string_view boundary);

  // Reads up to the first byte of the part named "file". malformed_post, post_fields_too_large, and the body's own
  // errors; invalid_argument when the form ends without a file or has a duplicate field.
  Task<Result<Form>> read_fields();

  // Refuses more than this, as soon as it is exceeded: entity_too_large.
  void limit(uint64_t bytes_max) { bytes_max_ = bytes_max; }
  uint64_t file_bytes() const { return file_bytes_; }  // so far; complete once read() has reached the end

  std::optional<uint64_t> size() const override { return std::nullopt; }
  Task<Result<void>> ready() override {
    return clean_ != 0 || file_ended_ || body_ended_ ? memory::Source::ready() : body_.ready();
  }
  Task<Result<size_t>> read(MutableBytes into) override;
  uint64_t arrived() const override { return body_.arrived(); }  // of the whole form

 private:
  std::string_view buffered() const { return std::string_view(buffer_).substr(at_); }
  // Appends more bytes to the buffer. False at the body's end.
  Task<Result<bool>> fill();
  // The text up to the delimiter, which is consumed too. `found` false: not among bytes_max bytes.
  Task<Result<std::string>> until(std::string_view delimiter, size_t bytes_max);
  Task<Result<void>> finish();  // after the file: reads the rest of the body, to verify it to its end

  memory::Source& body_;
  std::string delimiter_;  // "\r\n--boundary"
  std::string buffer_;
  size_t at_ = 0;
  size_t clean_ = 0;  // buffered bytes that cannot begin a delimiter
  bool body_ended_ = false, file_ended_ = false;
  uint64_t bytes_max_ = UINT64_MAX, file_bytes_ = 0;
};

}  // namespace verbena::s3

#include "s3_http/objects/form.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"

namespace verbena::s3 {
namespace {

constexpr size_t boundary_max = 70;       // RFC 2046 section 5.1.1
constexpr size_t epilogue_max = 1 * MiB;  // fields after the file, which are ignored
constexpr size_t padding_max = 1024;      // blanks between a boundary and the end of its line

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

// The value of one parameter of "type; name=value; name=\"quoted\"". Browsers write a quote inside as %22 or \".
std::optional<std::string> parameter(std::string_view header, std::string_view wanted) {
  size_t at = header.find(';');
  while (at != std::string_view::npos) {
    header = trim(header.substr(at + 1));
    const size_t equals = header.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view name = trim(header.substr(0, equals));
    header = trim(header.substr(equals + 1));
    std::string value;
    if (header.starts_with('"')) {
      size_t i = 1;
      for (; i < header.size() && header[i] != '"'; ++i) {
        // Old browsers send whole Windows paths: only a quote or a backslash counts as escaped.
        const bool escape =
            header[i] == '\\' && i + 1 < header.size() && (header[i + 1] == '"' || header[i + 1] == '\\');
        if (escape) ++i;
        value += header[i];
      }
      if (i >= header.size()) return std::nullopt;
      header = header.substr(i + 1);
    } else {
      const size_t end = std::min(header.find(';'), header.size());
      value = trim(header.substr(0, end));
      header = header.substr(end);
    }
    if (equal_ignoring_case(name, wanted)) return value;
    at = header.find(';');
  }
  return std::nullopt;
}

struct PartHead {
  std::string name, file_name, type;
};

Result<PartHead> parse_part_head(std::string_view text) {
  PartHead head;
  bool disposed = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find("\r\n"), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 2, text.size()));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return fail(Errc::malformed_post, "form: part header");
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = trim(line.substr(colon + 1));
    if (equal_ignoring_case(name, "content-disposition")) {
      auto field = parameter(value, "name");
      if (!field || disposed) return fail(Errc::malformed_post, "form: Content-Disposition");
      head.name = std::move(*field);
      head.file_name = parameter(value, "filename").value_or("");
      disposed = true;
    } else if (equal_ignoring_case(name, "content-type")) {
      head.type = value;
    }
  }
  if (!disposed) return fail(Errc::malformed_post, "form: a part has no name");
  return head;
}

}  // namespace

std::string_view header_of_field(std::string_view field) {
  if (equal_ignoring_case(field, "acl")) return "x-amz-acl";
  return equal_ignoring_case(field, "tagging") ? "x-amz-tagging" : field;
}

std::optional<std::string_view> Form::get(std::string_view name) const {
  for (const auto& [field, value] : fields) {
    if (equal_ignoring_case(header_of_field(field), header_of_field(name))) return value;
  }
  return std::nullopt;
}

std::optional<std::string> form_boundary(std::string_view content_type) {
  const std::string_view type = trim(content_type.substr(0, content_type.find(';')));
  if (!equal_ignoring_case(type, "multipart/form-data")) return std::nullopt;
  auto boundary = parameter(content_type, "boundary");
  if (!boundary || boundary->empty() || boundary->size() > boundary_max) return std::nullopt;
  if (boundary->find_first_of("\r\n") != std::string::npos) return std::nullopt;
  return boundary;
}

FormReader::FormReader(memory::Source& body, std::string_view boundary)
    : body_(body), delimiter_("\r\n--" + std::string(boundary)) {
  buffer_ = "\r\n";  // the first delimiter is at the very start, without its line end
}

Task<Result<bool>> FormReader::fill() {
  if (body_ended_) co_return false;
  buffer_.erase(0, at_);
  at_ = 0;
  const size_t have = buffer_.size();
  // Small while fields are read: a form without a file does not need the whole buffer.
  const size_t room = have < 4 * KiB && file_bytes_ == 0 ? 16 * KiB : buffer_size;
  buffer_.resize(have + room);
  const auto into = std::as_writable_bytes(std::span(buffer_)).subspan(have);
  auto got = co_await body_.read(into);
  buffer_.resize(have + got.value_or(0));
  if (!got) co_return std::unexpected(got.error());
  body_ended_ = *got < room;
  co_return *got > 0;
}

Task<Result<std::string>> FormReader::until(std::string_view delimiter, size_t bytes_max) {
  for (size_t from = 0;;) {
    const size_t found = buffered().find(delimiter, from);
    if (found != std::string_view::npos && found <= bytes_max) {
      std::string text(buffered().substr(0, found));
      at_ += found + delimiter.size();
      co_return text;
    }
    if (buffered().size() > bytes_max + delimiter.size()) co_return fail(Errc::post_fields_too_large, "form");
    from = buffered().size() >= delimiter.size() ? buffered().size() - delimiter.size() + 1 : 0;
    VB_CO_ASSIGN(const bool more, co_await fill());
    if (!more) co_return fail(Errc::malformed_post, "form: ends inside a part");
  }
}

Task<Result<Form>> FormReader::read_fields() {
  Form form;
  size_t left = Form::fields_bytes_max;
  // Text before the first boundary is ignored (RFC 2046 section 5.1.1); it counts like fields.
  VB_CO_ASSIGN(const std::string preamble, co_await until(delimiter_, left));
  left -= std::min(left, preamble.size());
  for (;;) {
    VB_CO_ASSIGN(const std::string line, co_await until("\r\n", padding_max));
    if (line.starts_with("--") && trim(std::string_view(line).substr(2)).empty())
      co_return fail(Errc::invalid_argument, "POST requires exactly one file upload per request.");
    if (!trim(line).empty()) co_return fail(Errc::malformed_post, "form: delimiter");
    VB_CO_ASSIGN(const std::string text, co_await until("\r\n\r\n", left));
    VB_CO_ASSIGN(PartHead head, parse_part_head(text));
    if (equal_ignoring_case(head.name, "file")) {
      // Some browsers send the whole path of the file, with their own separators.
      const size_t slash = head.file_name.find_last_of("/\\");
      form.file_name = slash == std::string::npos ? head.file_name : head.file_name.substr(slash + 1);
      form.file_type = std::move(head.type);
      co_return form;
    }
    if (form.fields.size() == Form::fields_max) co_return fail(Errc::post_fields_too_large, "form: fields");
    left -= std::min(left, text.size());
    // Duplicates are refused: a policy check might use the first and the store the last.
    if (form.get(head.name)) co_return fail(Errc::invalid_argument, "A field of the form is repeated.");
    VB_CO_ASSIGN(std::string value, co_await until(delimiter_, left));
    left -= std::min(left, value.size());
    form.fields.emplace_back(std::move(head.name), std::move(value));
  }
}

Task<Result<void>> FormReader::finish() {
  file_ended_ = true;
  for (size_t total = 0; total <= epilogue_max; total += buffered().size()) {
    at_ = buffer_.size();
    VB_CO_ASSIGN(const bool more, co_await fill());
    if (!more) co_return Result<void>();
  }
  co_return fail(Errc::malformed_post, "form: too much after the file");
}

Task<Result<size_t>> FormReader::read(MutableBytes into) {
  size_t filled = 0;
  while (filled < into.size() && !file_ended_) {
    const std::string_view have = buffered();
    const size_t found = clean_ < have.size() ? have.find(delimiter_, clean_) : std::string_view::npos;
    // Without a delimiter in the buffer, the last bytes may be the beginning of one.
    const size_t keep = delimiter_.size() - 1;
    const size_t usable = found != std::string_view::npos ? found : have.size() > keep ? have.size() - keep : 0;
    const size_t n = std::min(usable, into.size() - filled);
    std::memcpy(into.data() + filled, have.data(), n);
    filled += n;
    at_ += n;
    file_bytes_ += n;
    clean_ = usable - n;
    if (file_bytes_ > bytes_max_) co_return fail(Errc::entity_too_large, "form: file");
    if (n < usable) break;
    if (found != std::string_view::npos) {
      VB_CO_TRY(co_await finish());
    } else if (filled < into.size()) {
      VB_CO_ASSIGN(const bool more, co_await fill());
      if (!more) co_return fail(Errc::malformed_post, "form: the file has no end");
    }
  }
  co_return filled;
}

}  // namespace verbena::s3

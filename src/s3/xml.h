// XML: written by hand (S3's answers are flat), read with pugixml under bounds.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/result.h"
#include "store/store.h"

namespace verbena::s3 {

class XmlWriter {
 public:
  enum Namespace { plain, s3 };  // AWS gives its namespace to results, not to errors
  explicit XmlWriter(std::string_view root, Namespace ns = s3);
  XmlWriter(std::string_view root, std::string_view attributes);  // another API's namespace

  void open(std::string_view name);
  void close();
  // Text that XML 1.0 cannot carry (control characters, which keys may hold) is written as character references, as AWS
  // does. Strict parsers refuse those: clients that have such keys ask for encoding-type=url.
  void element(std::string_view name, std::string_view text);
  void element(std::string_view name, std::integral auto number) { element(name, std::to_string(number)); }
  void element(std::string_view name, bool value) { element(name, value ? std::string_view("true") : "false"); }
  void element(std::string_view name, const char* text) { element(name, std::string_view(text)); }
  void element(std::string_view name, const std::string& text) { element(name, std::string_view(text)); }
  void quoted(std::string_view name, std::string_view etag);  // with the quotes of an entity tag
  // For attributes that S3 uses (xsi:type): opens an element with text appended inside its tag.
  void open_with(std::string_view name, std::string_view attributes);
  // Balanced XML, written without escaping: for texts that are written a thousand times.
  void raw(std::initializer_list<std::string_view> pieces);
  void reserve(size_t bytes) { out_.reserve(out_.size() + bytes); }  // room for what is written next
  std::string finish();                                              // closes what is open

 private:
  std::string out_;
  std::vector<std::string> stack_;
};

// Largest request document: 10,000 parts with a SHA-256 each, or 1,000 keys of 1,024 escaped bytes.
inline constexpr size_t xml_bytes_max = 4 * MiB;

struct DeleteTarget {
  std::string key;
  std::optional<std::string> version_id;
  std::optional<std::string> etag;    // without quotes
  std::optional<int64_t> modified_s;  // LastModifiedTime, seconds since the epoch
  std::optional<uint64_t> size;
};
struct DeleteDocument {
  bool quiet = false;
  std::vector<DeleteTarget> targets;  // 1 to 1000
};
// All parsers: malformed_xml for anything that is not the document asked for, too large, too deep, or has a DTD.
Result<DeleteDocument> parse_delete(std::string_view text);

struct CompletePart {
  int number = 0;
  std::string etag;                        // without quotes
  std::vector<store::Checksum> checksums;  // parts: 0
};
// 1 to 10,000 parts, in the order of the document.
Result<std::vector<CompletePart>> parse_complete(std::string_view text);

struct NewBucketDocument {
  std::string region;  // the LocationConstraint; empty when there is none
  bool directory = false;
  std::string zone;  // of a directory bucket
  store::Tags tags;
};
// invalid_request: properties of a directory bucket that are not supported here; invalid_tag.
Result<NewBucketDocument> parse_create_bucket(std::string_view text);

}  // namespace verbena::s3

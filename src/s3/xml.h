// XML: written by hand (S3's answers are flat), read with pugixml under bounds.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

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

}  // namespace verbena::s3

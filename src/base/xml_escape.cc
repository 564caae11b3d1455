#include "base/xml_escape.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/hex.h"

namespace verbena {
namespace {

std::string_view entity_of(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    default:
      return {};
  }
}

void append_escaped(std::string& out, char c) {
  if (const std::string_view entity = entity_of(c); !entity.empty()) {
    out += entity;
  } else {
    out += "&#x";
    if (static_cast<unsigned char>(c) >= 0x10) out += '1';
    out += lower_hex_digits[static_cast<unsigned char>(c) & 15];
    out += ';';
  }
}

// Characters that must be escaped.
constexpr std::array<bool, 256> not_plain = [] {
  std::array<bool, 256> table{};
  for (int c = 0; c < 0x20; ++c) table[static_cast<size_t>(c)] = true;
  for (const char c : {'&', '<', '>', '"'}) table[static_cast<unsigned char>(c)] = true;
  return table;
}();

using Block = unsigned char __attribute__((vector_size(16)));

// Whether 16 characters are plain: not_plain's rule, in vector instructions.
bool plain_block(const char* text) {
  Block block;
  std::memcpy(&block, text, sizeof block);
  const auto special = (block < 0x20) | (block == '&') | (block == '<') | (block == '>') | (block == '"');
  const auto halves = std::bit_cast<std::array<uint64_t, 2>>(special);
  return (halves[0] | halves[1]) == 0;
}

// Text of 16 characters or more ends with a block that overlaps the one before it.
bool is_plain(std::string_view text) {
  constexpr size_t size = sizeof(Block);
  if (text.size() >= size) {
    for (size_t at = 0; at + size < text.size(); at += size) {
      if (!plain_block(text.data() + at)) return false;
    }
    return plain_block(text.data() + text.size() - size);
  }
  bool plain = true;
  for (const char c : text) plain &= !not_plain[static_cast<unsigned char>(c)];
  return plain;
}

}  // namespace

// Nearly all text is plain: each run between two characters to escape is appended at once.
void append_xml_escaped(std::string& out, std::string_view text) {
  size_t plain = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (!not_plain[static_cast<unsigned char>(text[at])]) continue;
    out.append(text.substr(plain, at - plain));
    append_escaped(out, text[at]);
    plain = at + 1;
  }
  out.append(text.substr(plain));
}

std::string_view xml_escaped(std::string_view text, std::string& scratch) {
  if (is_plain(text)) return text;
  scratch.clear();
  append_xml_escaped(scratch, text);
  return scratch;
}

}  // namespace verbena

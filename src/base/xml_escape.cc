#include "base/xml_escape.h"

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

}  // namespace

void append_xml_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (const std::string_view entity = entity_of(c); !entity.empty()) {
      out += entity;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "&#x";
      if (static_cast<unsigned char>(c) >= 0x10) out += '1';
      out += lower_hex_digits[static_cast<unsigned char>(c) & 15];
      out += ';';
    } else {
      out += c;
    }
  }
}

}  // namespace verbena

#include "base/xml_escape.h"

#include <gtest/gtest.h>

namespace verbena {
namespace {

std::string escaped(std::string_view text) {
  std::string out = "x";
  append_xml_escaped(out, text);
  return out.substr(1);
}

TEST(XmlEscape, WhatWouldEndTheTextBecomesAnEntity) {
  EXPECT_EQ(escaped("a&b<c>d\"e'f"), "a&amp;b&lt;c&gt;d&quot;e'f");
  EXPECT_EQ(escaped("]]>"), "]]&gt;");
  EXPECT_EQ(escaped("&amp;"), "&amp;amp;");
}

TEST(XmlEscape, ControlCharactersBecomeReferences) {
  EXPECT_EQ(escaped(std::string_view("\0\x01\n\x1f \x7f", 6)), "&#x0;&#x1;&#xa;&#x1f; \x7f");
}

TEST(XmlEscape, AViewIsOfTheTextItselfWhereThatIsPlain) {
  std::string scratch;
  const std::string_view plain = "photos/2026/caf\xc3\xa9", other = "a<b";
  EXPECT_EQ(xml_escaped(plain, scratch).data(), plain.data());
  EXPECT_EQ(xml_escaped(plain, scratch), plain);
  EXPECT_EQ(xml_escaped(other, scratch), "a&lt;b");
  EXPECT_EQ(xml_escaped("\x01", scratch), "&#x1;");
  EXPECT_EQ(xml_escaped("", scratch), "");
}

TEST(XmlEscape, ACharacterToEscapeIsFoundAtEachPlaceOfATextOfAnyLength) {
  std::string scratch;
  for (size_t length = 1; length <= 50; ++length) {
    const std::string plain(length, '\xff');
    EXPECT_EQ(xml_escaped(plain, scratch).data(), plain.data());
    for (size_t at = 0; at < length; ++at) {
      for (const char c : {'&', '<', '>', '"', '\0', '\x1f'}) {
        std::string text = plain;
        text[at] = c;
        EXPECT_EQ(xml_escaped(text, scratch), escaped(text)) << length << ' ' << at;
      }
      for (const char c : {' ', '!', '#', '%', '\'', ';', '=', '?', '\x7f', '\x80'}) {
        std::string text = plain;
        text[at] = c;
        EXPECT_EQ(xml_escaped(text, scratch).data(), text.data()) << length << ' ' << at;
      }
    }
  }
}

TEST(XmlEscape, OtherTextStaysAsItIs) {
  for (const char* text : {"", "plain", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\xbf"}) EXPECT_EQ(escaped(text), text);
}

}  // namespace
}  // namespace verbena

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

TEST(XmlEscape, OtherTextStaysAsItIs) {
  for (const char* text : {"", "plain", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\xbf"}) EXPECT_EQ(escaped(text), text);
}

}  // namespace
}  // namespace verbena

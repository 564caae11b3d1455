#include "base/xml_names.h"

#include <gtest/gtest.h>

#include <array>
#include <sstream>

namespace verbena {
namespace {

constexpr std::array<std::string_view, 1> known = {"urn:s3"};

std::string text_of(const pugi::xml_document& document) {
  std::ostringstream out;
  document.save(out, "", pugi::format_raw | pugi::format_no_declaration);
  std::string text = out.str();  // some releases of the writer have a blank before "/>"
  for (size_t at; (at = text.find(" />")) != text.npos;) text.erase(at, 1);
  return text;
}

// The resulting document of a request; "refused" if it is not accepted.
std::string named(const std::string& xml) {
  pugi::xml_document document;
  if (!document.load_string(xml.c_str())) return "syntax";
  return resolve_xml_names(document.document_element(), known) ? text_of(document) : "refused";
}

std::string named_reply(const std::string& xml) {
  pugi::xml_document document;
  if (!document.load_string(xml.c_str())) return "syntax";
  return resolve_xml_reply_names(document.document_element()) ? text_of(document) : "refused";
}

TEST(XmlNames, APrefixIsAsGoodAsAnother) {
  EXPECT_EQ(named("<a:Delete xmlns:a=\"urn:s3\"><a:Key>k</a:Key></a:Delete>"),
            "<Delete xmlns:a=\"urn:s3\"><Key>k</Key></Delete>");
  EXPECT_EQ(named("<a:X xmlns:a=\"urn:s3\"><b:Y xmlns:b=\"urn:s3\"/><Z/></a:X>"),
            "<X xmlns:a=\"urn:s3\"><Y xmlns:b=\"urn:s3\"/><Z/></X>");
  EXPECT_EQ(named("<X><Y/></X>"), "<X><Y/></X>") << "without a namespace";
  EXPECT_EQ(named("<X xmlns=\"urn:s3\"><Y xmlns=\"\"/></X>"), "<X xmlns=\"urn:s3\"><Y xmlns=\"\"/></X>");
}

TEST(XmlNames, AForeignOrUndeclaredNamespaceIsRefused) {
  for (const char* xml : {
           "<X xmlns=\"urn:other\"/>",
           "<a:X xmlns:a=\"urn:other\"/>",
           "<X xmlns=\"urn:s3\"><Y xmlns=\"urn:other\"/></X>",
           "<a:X/>",
           "<X><a:Y xmlns:a=\"urn:s3\"/><a:Z/></X>",  // the declaration ends with its element
           "<a:X xmlns:a=\"\"/>",
           "<xml:X/>",
       }) {
    EXPECT_EQ(named(xml), "refused") << xml;
  }
}

TEST(XmlNames, AnInnerDeclarationHidesTheOuterOneWithinItsElement) {
  EXPECT_EQ(named("<a:X xmlns:a=\"urn:s3\"><a:Y xmlns:a=\"urn:other\"/></a:X>"), "refused");
  EXPECT_EQ(named("<a:X xmlns:a=\"urn:s3\"><Y xmlns:a=\"urn:other\"/><a:Z/></a:X>"),
            "<X xmlns:a=\"urn:s3\"><Y xmlns:a=\"urn:other\"/><Z/></X>");
}

TEST(XmlNames, DeclarationsInScopeAreBounded) {
  const auto with = [](size_t n) {
    std::string xml = "<X";
    for (size_t i = 0; i < n; ++i) xml += " xmlns:a" + std::to_string(i) + "=\"urn:s3\"";
    return xml + "/>";
  };
  EXPECT_NE(named(with(xml_bindings_max)), "refused");
  EXPECT_EQ(named(with(xml_bindings_max + 1)), "refused");
}

TEST(XmlNames, AReplyIsReadByTheNamespaceOfItsRoot) {
  EXPECT_EQ(named_reply("<a:X xmlns:a=\"urn:any\" xmlns:b=\"urn:more\"><b:Key>no</b:Key><a:Key>yes</a:Key></a:X>"),
            "<X xmlns:a=\"urn:any\" xmlns:b=\"urn:more\"><Key>yes</Key></X>");
  EXPECT_EQ(named_reply("<X xmlns=\"urn:any\"><Y/></X>"), "<X xmlns=\"urn:any\"><Y/></X>");
  EXPECT_EQ(named_reply("<a:X/>"), "refused");
}

}  // namespace
}  // namespace verbena

#include "s3/xml.h"
#include "s3_http/request_documents.h"

#include <gtest/gtest.h>

#include <fmt/core.h>

namespace verbena::s3 {
namespace {

TEST(Xml, WriterEscapesAndCloses) {
  XmlWriter xml("Root");
  xml.open("A");
  xml.element("B", "x<y>&\"\x01\n");
  xml.element("C", 7);
  xml.element("D", true);
  xml.quoted("E", "tag");
  EXPECT_EQ(xml.finish(),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Root xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><A>"
            "<B>x&lt;y&gt;&amp;&quot;&#x1;&#xa;</B><C>7</C><D>true</D><E>&quot;tag&quot;</E></A></Root>");
}

TEST(Xml, DeleteIsRead) {
  const auto document = parse_delete(
      "<?xml version=\"1.0\"?><Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>"
      "<Object><Key>a&amp;b&#x9;&#x1F600;</Key><VersionId>null</VersionId></Object>\n<Object><Key> "
      "</Key><ETag>\"e\"</ETag>"
      "</Object><Object><Key><![CDATA[<x>]]>\r\n</Key></Object></Delete>");
  ASSERT_TRUE(document) << describe(document.error());
  EXPECT_TRUE(document->quiet);
  ASSERT_EQ(document->targets.size(), 3u);
  EXPECT_EQ(document->targets[0].key, "a&b\t\xf0\x9f\x98\x80");
  EXPECT_EQ(document->targets[0].version_id, "null");
  EXPECT_EQ(document->targets[1].key, " ");
  EXPECT_EQ(document->targets[1].etag, "e");
  EXPECT_EQ(document->targets[2].key, "<x>\r\n");
}

// "a&#0;b" named the object "a", and a rule's prefix "&#0;" the whole bucket.
TEST(Xml, ACharacterThatXmlForbidsIsRefusedAlsoAsAReference) {
  const auto key = [](const std::string& text) {
    return parse_delete("<Delete><Object><Key>a" + text + "b</Key></Object></Delete>");
  };
  for (const char* text :
       {"&#0;",     "&#00;",    "&#x0;",    "&#x00000;",  "&#1;",          "&#x1f;",       "&#xd800;",
        "&#xDFFF;", "&#xfffe;", "&#65535;", "&#x110000;", "&#4294967296;", "&#x;",         "&#;",
        "&#-1;",    "&#+9;",    "&#x 9;",   "\x01",       "\x1b",          "\xef\xbf\xbf", "<![CDATA[\x02]]>"}) {
    EXPECT_EQ(key(text).error(), Errc::malformed_xml) << text;
  }
  EXPECT_EQ(key(std::string(1, '\0')).error(), Errc::malformed_xml);
  for (const char* text : {"&#9;", "&#x20;", "&#xd7ff;", "&#xE000;", "&#xfffd;", "&#x10ffff;", "\xef\xbf\xbd", "\t"}) {
    EXPECT_TRUE(key(text)) << text;
  }
}

// JAXB writes "ns2:" before every name.
TEST(Xml, ADocumentIsReadByItsNamespaceWhateverThePrefix) {
  const std::string s3 = "http://s3.amazonaws.com/doc/2006-03-01/";
  const auto document =
      parse_delete("<?xml version=\"1.0\"?>\n<!-- c --><ns2:Delete xmlns:ns2=\"" + s3 +
                   "\"><ns2:Object><ns2:Key>a:b</ns2:Key></ns2:Object><Quiet>true</Quiet></ns2:Delete>");
  ASSERT_TRUE(document) << describe(document.error());
  EXPECT_TRUE(document->quiet);
  EXPECT_EQ(document->targets.at(0).key, "a:b");
  EXPECT_TRUE(parse_complete("<x:CompleteMultipartUpload xmlns:x=\"" + s3 +
                             "\"><x:Part><x:ETag>e</x:ETag><x:PartNumber>1</x:PartNumber></x:Part>"
                             "</x:CompleteMultipartUpload>"));
  EXPECT_TRUE(parse_create_bucket("<b:CreateBucketConfiguration xmlns:b=\"" + s3 +
                                  "\"><b:LocationConstraint>r</b:LocationConstraint></b:CreateBucketConfiguration>"));
  EXPECT_TRUE(
      parse_delete("<Delete xmlns=\"http://doc.s3.amazonaws.com/2006-03-01\"><Object><Key>k</Key></Object></Delete>"));
  for (const char* wrong : {"<Delete xmlns=\"urn:other\"><Object><Key>k</Key></Object></Delete>",
                            "<Delete><Object><Key xmlns=\"urn:other\">k</Key></Object></Delete>",
                            "<ns2:Delete><Object><Key>k</Key></Object></ns2:Delete>"}) {
    EXPECT_EQ(parse_delete(wrong).error(), Errc::malformed_xml) << wrong;
  }
}

TEST(Xml, DeleteTakesAThousandKeysAndNoMore) {
  const auto make = [](int n) {
    std::string xml = "<Delete>";
    for (int i = 0; i < n; ++i) xml += fmt::format("<Object><Key>{}</Key></Object>", i);
    return xml + "</Delete>";
  };
  EXPECT_EQ(parse_delete(make(1000))->targets.size(), 1000u);
  EXPECT_EQ(parse_delete(make(1001)).error(), Errc::malformed_xml);
  EXPECT_EQ(parse_delete(make(0)).error(), Errc::malformed_xml);
}

TEST(Xml, CompleteTakesTenThousandPartsWithChecksums) {
  std::string xml = "<CompleteMultipartUpload>";
  for (int i = 1; i <= 10'000; ++i) {
    xml += fmt::format(
        "<Part><ETag>&quot;{:032x}&quot;</ETag><PartNumber>{}</PartNumber>"
        "<ChecksumSHA256>47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=</ChecksumSHA256></Part>",
        i, i);
  }
  xml += "</CompleteMultipartUpload>";
  const auto parts = parse_complete(xml);
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->size(), 10'000u);
  EXPECT_EQ(parts->back().number, 10'000);
  EXPECT_EQ(parts->back().checksums.at(0).value.size(), 32u);
  EXPECT_EQ(parts->front().etag, "00000000000000000000000000000001");
}

TEST(Xml, CompleteChecksItsNumbers) {
  const auto one = [](std::string_view number) {
    return parse_complete(fmt::format(
        "<CompleteMultipartUpload><Part><ETag>e</ETag><PartNumber>{}</PartNumber></Part></CompleteMultipartUpload>",
        number));
  };
  EXPECT_TRUE(one(" 1 "));
  EXPECT_EQ(one("0").error(), Errc::invalid_argument);
  EXPECT_EQ(one("10001").error(), Errc::invalid_argument);
  EXPECT_EQ(one("-1").error(), Errc::invalid_argument);
  EXPECT_EQ(one("").error(), Errc::invalid_argument);
  EXPECT_EQ(parse_complete("<CompleteMultipartUpload><Part><ETag>e</ETag></Part></CompleteMultipartUpload>").error(),
            Errc::malformed_xml);
  EXPECT_EQ(parse_complete("<CompleteMultipartUpload/>").error(), Errc::malformed_xml);
}

TEST(Xml, HostileDocumentsAreMalformed) {
  const std::string nested = [] {
    std::string xml;
    for (int i = 0; i < 100'000; ++i) xml += "<a>";
    return xml;
  }();
  std::string deep = "<Delete>";
  for (int i = 0; i < 20; ++i) deep += "<x>";
  for (int i = 0; i < 20; ++i) deep += "</x>";
  deep += "</Delete>";
  const std::string good = "<Object><Key>k</Key></Object>";
  const std::vector<std::string> bad = {
      "",
      " ",
      "not xml",
      "<Delete>",
      "<Delete></Deleted>",
      "<Other>" + good + "</Other>",
      "<!DOCTYPE Delete [<!ENTITY a \"aaaa\">]><Delete>" + good + "</Delete>",
      "<!DOCTYPE Delete SYSTEM \"file:///etc/passwd\"><Delete>" + good + "</Delete>",
      "<Delete><Object><Key>&a;</Key></Object></Delete>",
      "<Delete><Object><Key>&</Key></Object></Delete>",
      "<Delete><Object><Key>&#xzz;</Key></Object></Delete>",
      "<Delete><Object></Object></Delete>",
      "<Delete><Object><Key></Key></Object></Delete>",
      "<Delete><Object><Key>a</Key><Key>b</Key></Object></Delete>",
      "<Delete><Object><Key>\xff</Key></Object></Delete>",
      std::string("<Delete>\0</Delete>", 18),
      "<Delete><![CDATA[</Delete>",
      "<Delete><!--</Delete>",
      "<Delete>" + good + "</Delete><Delete/>",
      std::string(xml_bytes_max + 1, ' '),
      nested,
      deep,
  };
  for (const auto& text : bad) {
    const auto document = parse_delete(text);
    ASSERT_FALSE(document) << text.substr(0, 80);
    EXPECT_EQ(document.error(), Errc::malformed_xml) << text.substr(0, 80);
    EXPECT_FALSE(parse_complete(text));
    EXPECT_FALSE(parse_create_bucket(text));
  }
}

TEST(Xml, CreateBucketGivesTheRegion) {
  EXPECT_EQ(parse_create_bucket("<CreateBucketConfiguration><LocationConstraint> eu-west-1 "
                                "</LocationConstraint></CreateBucketConfiguration>")
                ->region,
            "eu-west-1");
  EXPECT_EQ(parse_create_bucket("<CreateBucketConfiguration/>")->region, "");
}

TEST(Xml, CreateBucketTakesTags) {
  const auto document = [](const std::string& inside) {
    return parse_create_bucket("<CreateBucketConfiguration>" + inside + "</CreateBucketConfiguration>");
  };
  const std::string tag = "<Tag><Key>a</Key><Value>1</Value></Tag>";
  EXPECT_EQ(document("<Tags>" + tag + "</Tags>")->tags, (store::Tags{{"a", "1"}}));
  EXPECT_EQ(document("<Tags/>")->tags, store::Tags{});
  EXPECT_EQ(document("<Tags>" + tag + tag + "</Tags>").error(), Errc::invalid_tag);
  EXPECT_EQ(document("<Tags><Key>a</Key></Tags>").error(), Errc::malformed_xml);
  for (const char* twice : {"<Tags/><Tags/>", "<LocationConstraint>a</LocationConstraint><LocationConstraint/>",
                            "<Location/><Location/>", "<Other/>"}) {
    EXPECT_EQ(document(twice).error(), Errc::malformed_xml) << twice;
  }
}

TEST(Xml, CreateBucketSaysWhereADirectoryBucketIs) {
  const auto document = [](const std::string& inside) {
    return parse_create_bucket("<CreateBucketConfiguration>" + inside + "</CreateBucketConfiguration>");
  };
  const std::string place = "<Location><Name>local1-az1</Name><Type>AvailabilityZone</Type></Location>";
  const std::string kind =
      "<Bucket><DataRedundancy>SingleAvailabilityZone</DataRedundancy><Type>Directory</Type></Bucket>";
  const auto sound = document(place + kind);
  ASSERT_TRUE(sound);
  EXPECT_TRUE(sound->directory);
  EXPECT_EQ(sound->zone, "local1-az1");
  for (const std::string& half : {place, kind, std::string("<Bucket/>"), std::string("<Location/>"),
                                  "<Location><Name>x</Name><Type>LocalZone</Type></Location>" + kind,
                                  place + "<Bucket><Type>General</Type></Bucket>"}) {
    EXPECT_EQ(document(half).error(), Errc::invalid_request) << half;
  }
  EXPECT_EQ(document(place + kind + "<Other/>").error(), Errc::malformed_xml);
}

}  // namespace
}  // namespace verbena::s3

#include "s3_http/objects/form.h"

#include "s3_http/test_rig.h"

namespace verbena::s3::test {
namespace {

std::string part(const std::string& name, const std::string& value, const std::string& more = "") {
  return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"" + more + "\r\n\r\n" + value + "\r\n";
}

class FormTest : public Rig {
 protected:
  struct Read {
    Errc error = Errc::ok;
    Form form;
    std::string file;
  };
  // In pieces of `step` bytes, so that the delimiter lies across them in every way.
  Read read(const std::string& body, size_t step = 7, uint64_t bytes_max = UINT64_MAX) {
    TextSource source(body, body.size());
    FormReader reader(source, "b");
    reader.limit(bytes_max);
    Read out;
    auto form = run(reader.read_fields());
    if (!form) return {form.error().code, {}, {}};
    out.form = *form;
    std::string piece(step, '\0');
    for (;;) {
      const auto got = run(reader.read(std::as_writable_bytes(std::span(piece))));
      if (!got) {
        out.error = got.error().code;
        return out;
      }
      out.file += piece.substr(0, *got);
      if (*got < step) break;
    }
    EXPECT_EQ(reader.file_bytes(), out.file.size());
    return out;
  }
};

TEST_F(FormTest, FieldsComeBeforeTheFileAndWhatFollowsIsDropped) {
  const Read r = read(part("key", "a/b") + part("Content-Type", "text/plain") +
                      part("file", "hello\r\nworld", "; filename=\"C:\\dir\\x.txt\"\r\nContent-Type: image/png") +
                      part("late", "ignored") + "--b--\r\n");
  EXPECT_EQ(r.error, Errc::ok);
  EXPECT_EQ(r.form.get("key"), "a/b");
  EXPECT_EQ(r.form.get("content-type"), "text/plain");
  EXPECT_EQ(r.form.get("late"), std::nullopt);
  EXPECT_EQ(r.form.file_name, "x.txt");
  EXPECT_EQ(r.form.file_type, "image/png");
  EXPECT_EQ(r.file, "hello\r\nworld");
}

TEST_F(FormTest, AFileOfAnyBytesComesBackWhereverTheReadsAreCut) {
  std::string content = "\r\n--\r\n--a\r\n-" + pattern(600'000) + "\r\n--\r\n-";
  for (size_t step : {1000u, 4096u, 262'144u, 700'000u}) {
    EXPECT_EQ(read(part("key", "k") + part("file", content) + "--b--\r\n", step).file, content) << step;
  }
  for (size_t size = 0; size < 20; ++size) {
    const std::string little = content.substr(0, size);
    for (size_t step = 1; step < 24; ++step) {
      EXPECT_EQ(read(part("file", little) + "--b--\r\n", step).file, little) << size << " " << step;
    }
  }
}

TEST_F(FormTest, AFormThatIsNoneIsRefused) {
  EXPECT_EQ(read("").error, Errc::malformed_post);
  EXPECT_EQ(read("hello").error, Errc::malformed_post);
  EXPECT_EQ(read("--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nno end").error, Errc::malformed_post);
  EXPECT_EQ(read("--b\r\nContent-Type: text/plain\r\n\r\nno name\r\n--b--").error, Errc::malformed_post);
  EXPECT_EQ(read("--bb\r\n" + part("file", "x") + "--b--").error, Errc::malformed_post);
  EXPECT_EQ(read(part("key", "k") + "--b--\r\n").error, Errc::invalid_argument) << "no file";
}

// RFC 2046, section 5.1.1: a preamble, a line end before the first boundary, blanks behind one.
TEST_F(FormTest, WhatAMultipartBodyMayHaveAroundItsPartsIsPassedOver) {
  const std::string parts = part("key", "k") + part("file", "x") + "--b--\r\n";
  for (const std::string& before : {std::string("\r\n"), std::string("text first\r\n"),
                                    std::string("--a\r\n--\r\n-\r\n"), std::string(10'000, 'p') + "\r\n"}) {
    const Read r = read(before + parts);
    EXPECT_EQ(r.error, Errc::ok) << before.substr(0, 20);
    EXPECT_EQ(r.form.get("key"), "k");
    EXPECT_EQ(r.file, "x");
  }
  const Read inside = read("text" + parts);
  EXPECT_EQ(inside.file, "x");
  EXPECT_EQ(inside.form.get("key"), std::nullopt) << "a boundary begins a line, so that one was none";
  EXPECT_EQ(read(std::string(Form::fields_bytes_max + 1, 'p') + "\r\n" + parts).error, Errc::post_fields_too_large);
  const std::string blanks = std::string(500, ' ') + "\t";
  const std::string padded = "--b" + blanks + parts.substr(3);
  EXPECT_EQ(read(padded).file, "x");
  EXPECT_EQ(read("--b" + std::string(2000, ' ') + parts.substr(3)).error, Errc::post_fields_too_large);
  EXPECT_EQ(read(part("key", "k") + "--b--" + blanks + "\r\n").error, Errc::invalid_argument) << "the end";
}

// The policy was checked against the first of them, and the object got both.
TEST_F(FormTest, AFieldThatIsThereTwiceIsRefusedWhateverItsCase) {
  const auto twice = [&](const std::string& one, const std::string& other) {
    return read(part("key", "k") + part(one, "image/png") + part("x", "y") + part(other, "text/html") +
                part("file", "x") + "--b--")
        .error;
  };
  EXPECT_EQ(twice("Content-Type", "Content-Type"), Errc::invalid_argument);
  EXPECT_EQ(twice("Content-Type", "content-TYPE"), Errc::invalid_argument);
  EXPECT_EQ(twice("x-amz-meta-a", "X-Amz-Meta-A"), Errc::invalid_argument);
  EXPECT_EQ(twice("key", "z"), Errc::invalid_argument);
  EXPECT_EQ(twice("acl", "x-amz-acl"), Errc::invalid_argument) << "both say the same header";
  EXPECT_EQ(twice("X-Amz-Tagging", "Tagging"), Errc::invalid_argument);
  EXPECT_EQ(twice("Content-Type", "Content-Language"), Errc::ok);
}

TEST_F(FormTest, WhatComesBeforeTheFileIsBounded) {
  EXPECT_EQ(read(part("key", std::string(30'000, 'k')) + part("file", "x") + "--b--").error,
            Errc::post_fields_too_large);
  std::string many;
  for (size_t i = 0; i <= Form::fields_max; ++i) many += part("f" + std::to_string(i), "v");
  EXPECT_EQ(read(many + part("file", "x") + "--b--").error, Errc::post_fields_too_large);
  EXPECT_EQ(read(part("file", "12345") + "--b--", 64, 4).error, Errc::entity_too_large);
}

TEST_F(FormTest, TheBoundaryComesFromTheContentType) {
  EXPECT_EQ(form_boundary("multipart/form-data; boundary=abc"), "abc");
  EXPECT_EQ(form_boundary("Multipart/Form-Data; charset=x; boundary=\"a b\""), "a b");
  EXPECT_EQ(form_boundary("multipart/form-data"), std::nullopt);
  EXPECT_EQ(form_boundary("application/x-www-form-urlencoded; boundary=abc"), std::nullopt);
  EXPECT_EQ(form_boundary("multipart/form-data; boundary=" + std::string(71, 'x')), std::nullopt);
}

}  // namespace
}  // namespace verbena::s3::test

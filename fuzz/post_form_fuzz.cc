// A browser's form. The first byte selects the size of the reads: reading in other steps must give the same, and an
// accepted form is within the limits.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "memory/text_source.h"
#include "s3_http/objects/form.h"

namespace {

using namespace verbena;

struct Outcome {
  Errc error = Errc::ok;
  s3::Form form;
  std::string file;
};

Task<void> read_form(std::string_view body, size_t step, Outcome& out) {
  memory::TextSource source(body, std::nullopt);
  s3::FormReader reader(source, "b");
  auto form = co_await reader.read_fields();
  if (!form) {
    out.error = form.error().code;
    co_return;
  }
  out.form = std::move(*form);
  std::string piece(step, '\0');
  for (size_t got = step; got == step;) {
    const auto into = std::as_writable_bytes(std::span(piece));
    const auto read = co_await reader.read(into);
    if (!read) {
      out.error = read.error().code;
      co_return;
    }
    got = *read;
    out.file.append(piece, 0, got);
  }
}

Outcome read_all(std::string_view body, size_t step) {
  Outcome out;
  boost::asio::io_context io;
  boost::asio::co_spawn(io, read_form(body, step, out), boost::asio::detached);
  io.run();
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Outcome a = read_all(body, 1 + data[0]), b = read_all(body, 4096);
  if (a.error != b.error) std::abort();
  if (a.error != Errc::ok) return 0;
  if (a.file != b.file || a.form.fields != b.form.fields) std::abort();
  if (a.form.fields.size() > s3::Form::fields_max || a.form.file_name.find('/') != std::string::npos) std::abort();
  if (a.file.find("\r\n--b") != std::string::npos) std::abort();
  (void)s3::form_boundary(body);
  return 0;
}

#include "s3_http/error_response.h"

#include "base/utf8.h"
#include "s3/errors.h"
#include "s3/xml.h"
#include "s3_http/error_fields.h"

namespace verbena::s3 {
namespace {

std::string readable(std::string_view value) {
  constexpr std::string_view replacement = "\xef\xbf\xbd";  // U+FFFD
  const bool text = valid_utf8(value);
  std::string out;
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    const bool control = byte < 0x20 && c != '\t' && c != '\n' && c != '\r';
    out += control || (byte >= 0x80 && !text) ? replacement : std::string_view(&c, 1);
  }
  return out;
}

}  // namespace

void write_error_fields(XmlWriter& xml, const Headers& fields) {
  for (const auto& [name, value] : fields) xml.element(name, readable(value));
}

std::string error_xml(const Error& error, std::string_view resource, std::string_view request_id,
                      const Headers& fields) {
  XmlWriter xml("Error", XmlWriter::plain);
  xml.element("Code", error_form(error.code).code);
  xml.element("Message", error_message(error));
  write_error_fields(xml, fields);
  xml.element("Resource", resource);
  xml.element("RequestId", request_id);
  xml.element("HostId", host_id);
  return xml.finish();
}

void add_request_ids(Response& response, std::string_view request_id) {
  for (const auto& [name, value] : response.headers) {
    if (name == "x-amz-request-id") return;
  }
  response.headers.emplace_back("x-amz-request-id", request_id);
  response.headers.emplace_back("x-amz-id-2", host_id);
}

void fill_error_with(Response& response, const Error& error, std::string_view resource, std::string_view request_id,
                     const Headers& fields) {
  const ErrorForm form = error_form(error.code);
  response.status = form.status;
  response.error_code = form.code;
  response.headers.clear();
  response.content_length.reset();
  add_request_ids(response, request_id);
  if (form.status == 304) {
    response.body.clear();
    response.no_body = true;
    return;
  }
  response.headers.emplace_back("content-type", "application/xml");
  if (form.status == 503) response.headers.emplace_back("retry-after", "1");
  response.body = error_xml(error, resource, request_id, fields);
}

void fill_error(Response& response, const Error& error, std::string_view resource, std::string_view request_id) {
  fill_error_with(response, error, resource, request_id, {});
}

}  // namespace verbena::s3

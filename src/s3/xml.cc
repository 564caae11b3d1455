#include "s3/xml.h"

#include <algorithm>

#include "base/xml_escape.h"

namespace verbena::s3 {
namespace {

// The text grows once for all of them.
void append_all(std::string& out, std::initializer_list<std::string_view> pieces) {
  size_t size = 0, at = out.size();
  for (const std::string_view piece : pieces) size += piece.size();
  if (out.capacity() - at < size) out.reserve(std::max(out.capacity() * 2, at + size));
  out.resize(at + size);
  for (const std::string_view piece : pieces) at += piece.copy(out.data() + at, piece.size());
}

}  // namespace

XmlWriter::XmlWriter(std::string_view root, std::string_view attributes)
    : out_("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n") {
  open_with(root, attributes);
}

XmlWriter::XmlWriter(std::string_view root, Namespace ns)
    : XmlWriter(root, std::string_view(ns == s3 ? "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"" : "")) {}

void XmlWriter::open(std::string_view name) { open_with(name, {}); }

void XmlWriter::open_with(std::string_view name, std::string_view attributes) {
  out_ += '<';
  out_ += name;
  if (!attributes.empty()) {
    out_ += ' ';
    out_ += attributes;
  }
  out_ += '>';
  stack_.emplace_back(name);
}

void XmlWriter::close() {
  append_all(out_, {"</", stack_.back(), ">"});
  stack_.pop_back();
}

void XmlWriter::element(std::string_view name, std::string_view text) {
  append_all(out_, {"<", name, ">"});
  append_xml_escaped(out_, text);
  append_all(out_, {"</", name, ">"});
}

void XmlWriter::quoted(std::string_view name, std::string_view etag) {
  append_all(out_, {"<", name, ">&quot;"});
  append_xml_escaped(out_, etag);
  append_all(out_, {"&quot;</", name, ">"});
}

void XmlWriter::raw(std::initializer_list<std::string_view> pieces) { append_all(out_, pieces); }

std::string XmlWriter::finish() {
  while (!stack_.empty()) close();
  return std::move(out_);
}

}  // namespace verbena::s3

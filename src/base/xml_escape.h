// Escaping of text for XML.
#pragma once

#include <string>
#include <string_view>

namespace verbena {

// As the text of an element, or inside of an attribute's double quotation marks. Control characters, which XML 1.0
// cannot carry and keys may hold, become character references, as AWS writes them.
void append_xml_escaped(std::string& out, std::string_view text);

// The escaped text as a view: of `text` itself if all of it is plain, else of `scratch`. Both outlive it.
std::string_view xml_escaped(std::string_view text, std::string& scratch);

}  // namespace verbena

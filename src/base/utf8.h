// UTF-8 as RFC 3629 has it.
#pragma once

#include <string_view>

namespace verbena {

// RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
bool valid_utf8(std::string_view text);

}  // namespace verbena

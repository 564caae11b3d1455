#include "call/request_id.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace verbena::call {
namespace {

TEST(RequestId, IsTheNumberInUpperCaseHexadecimalDigits) {
  for (const uint64_t id : {uint64_t{0}, ~uint64_t{0}, uint64_t{0x0123456789abcdef}, uint64_t{0xfedcba9876543210},
                            uint64_t{0x99aa990a9a0fa9f0}}) {
    std::string text(request_id_size, '?');
    write_request_id(id, text.data());
    EXPECT_EQ(text, fmt::format("{:016X}", id));
  }
}

TEST(RequestId, NoTwoAreTheSame) { EXPECT_NE(make_request_id(), make_request_id()); }

}  // namespace
}  // namespace verbena::call

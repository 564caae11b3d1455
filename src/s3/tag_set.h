// Tags of buckets and objects. Source: AWS, "Tagging and access control", PutBucketTagging, PutObjectTagging.
#pragma once

#include <pugixml.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/store.h"

namespace verbena::s3 {

class XmlWriter;

inline constexpr size_t bucket_tags_max = 50;
inline constexpr size_t object_tags_max = 10;

// Keys have 1 to 128 characters, values up to 256. invalid_tag: a key or value that is too long or has an invalid
// character, a duplicate key, one of AWS's own ("aws:"), or more than `tags_max` of them.
Result<void> check_tags(const store::Tags& tags, size_t tags_max);

// <Tagging><TagSet>..., checked. malformed_xml too.
Result<store::Tags> parse_tagging(std::string_view text, size_t tags_max);

// The <Tag> elements of a list in any document, checked. malformed_xml too.
Result<store::Tags> read_tags(const pugi::xml_node& list, size_t tags_max);

std::string tagging_xml(const store::Tags& tags);
void write_tags(XmlWriter& xml, const store::Tags& tags);  // only the <Tag> elements

}  // namespace verbena::s3

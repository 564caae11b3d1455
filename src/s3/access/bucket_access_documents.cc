// XML of a bucket's object ownership and public access block.
#include <array>

#include "s3/access/ownership.h"
#include "s3/access/public_access.h"
#include "s3/xml.h"
#include "s3/xml_reader.h"

namespace verbena::s3 {
namespace {

struct NamedOwnership {
  std::string_view name;
  Ownership ownership;
};
constexpr std::array<NamedOwnership, 3> ownerships = {{
    {"ObjectWriter", Ownership::object_writer},
    {"BucketOwnerPreferred", Ownership::bucket_owner_preferred},
    {"BucketOwnerEnforced", Ownership::bucket_owner_enforced},
}};

struct NamedFlag {
  const char* name;
  bool PublicAccessBlock::* flag;
};
constexpr std::array<NamedFlag, 4> flags = {{
    {"BlockPublicAcls", &PublicAccessBlock::block_acls},
    {"IgnorePublicAcls", &PublicAccessBlock::ignore_acls},
    {"BlockPublicPolicy", &PublicAccessBlock::block_policy},
    {"RestrictPublicBuckets", &PublicAccessBlock::restrict_buckets},
}};

}  // namespace

std::optional<Ownership> named_ownership(std::string_view name) {
  for (const NamedOwnership& known : ownerships) {
    if (known.name == name) return known.ownership;
  }
  return std::nullopt;
}

Result<Ownership> parse_ownership(std::string_view text) {
  pugi::xml_document document;
  VB_ASSIGN(const pugi::xml_node root, load_xml(document, text, "OwnershipControls"));
  const auto ownership = named_ownership(trimmed_text(root.child("Rule").child("ObjectOwnership")));
  if (!ownership) return fail(Errc::malformed_xml, "object ownership");
  return *ownership;
}

std::string ownership_xml(Ownership ownership) {
  XmlWriter xml("OwnershipControls");
  xml.open("Rule");
  xml.element("ObjectOwnership", ownerships[static_cast<size_t>(ownership)].name);
  return xml.finish();
}

Result<PublicAccessBlock> parse_public_access(std::string_view text) {
  pugi::xml_document document;
  VB_ASSIGN(const pugi::xml_node root, load_xml(document, text, "PublicAccessBlockConfiguration"));
  PublicAccessBlock block;
  for (const NamedFlag& known : flags) {
    const std::string value = trimmed_text(root.child(known.name));
    const bool yes = value == "true" || value == "TRUE";
    if (!yes && !value.empty() && value != "false" && value != "FALSE") {
      return fail(Errc::malformed_xml, "xml: PublicAccessBlockConfiguration");
    }
    block.*known.flag = yes;
  }
  return block;
}

std::string public_access_xml(const PublicAccessBlock& block) {
  XmlWriter xml("PublicAccessBlockConfiguration");
  for (const NamedFlag& known : flags) xml.element(known.name, block.*known.flag);
  return xml.finish();
}

}  // namespace verbena::s3

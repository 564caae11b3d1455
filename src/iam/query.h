// The query APIs without their transport. Internal to iam/; tests and fuzzers call it, too.
#pragma once

#include <string>
#include <string_view>

#include "auth/identity_store.h"
#include "iam/parameters.h"
#include "iam/surroundings.h"
#include "s3/xml.h"
#include "s3_http/request.h"

namespace verbena::iam {

inline constexpr std::string_view sts_version = "2011-06-15";
inline constexpr std::string_view sts_namespace = "xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"";

// Serves one form, or refuses the text that is none. Blocks. Always fills `response`. The role's session whose
// credentials the answer has; null: none.
auth::PrincipalPtr answer_query(auth::IdentityStore& store, const Surroundings& around, const s3::Call& caller,
                                const auth::AccessKey& key, const Result<Parameters>& form, s3::Response& response);

// Whether the form is of a call that changes no account: it needs the accounts as they are now, and nothing else.
bool only_reads(const Result<Parameters>& form);

// <ErrorResponse>; an empty message: the code's default.
void write_error(const Error& error, std::string_view message, std::string_view request_id, bool sts,
                 s3::Response& response);

void write_error_form(std::string_view code, int status, std::string_view message, std::string_view request_id,
                      bool sts, s3::Response& response);

// The end of every answer, and its headers.
void write_metadata(s3::XmlWriter& xml, std::string_view request_id);
void add_answer_headers(std::string_view request_id, s3::Response& response);

}  // namespace verbena::iam

// Calls that nobody signed: of somebody who has no key here, and whom somebody else vouches for:
// an identity provider, a directory, an authority of certificates.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/identity_store.h"
#include "base/clock.h"
#include "base/secret.h"
#include "s3/request.h"
#include "sign_in/claims.h"
#include "sign_in/client_authority.h"
#include "sign_in/counts.h"
#include "sign_in/directory.h"
#include "sign_in/provider_keys.h"

namespace verbena::iam {

// Who signed in: for the log. Null: nobody did.
struct SignedIn {
  auth::PrincipalPtr principal;
  std::string access_key;
};

// What the directory is asked.
struct DirectoryQuestion {
  std::string name;
  Secret password;
};

struct StrangerReply {
  SignedIn who;
  // Set instead of an answer: this provider's keys are needed first, or what the directory says. Then the call is to be
  // answered once more.
  std::optional<sign_in::Issuer> wanted{};
  std::optional<DirectoryQuestion> question{};
  bool certificates = false;  // likewise: those that the client has shown
  sign_in::By by = sign_in::By::none;
  // Whether there is no answer yet.
  bool asks() const { return wanted || question || certificates; }
};

// Null: nobody signs in this way.
struct StrangerTools {
  auth::IdentityStore& store;
  const WallClock& clock;
  sign_in::ProviderKeys* keys = nullptr;
  const sign_in::DirectorySettings* directory = nullptr;
  sign_in::ClientAuthority* authority = nullptr;
};

using DirectoryAnswer = std::expected<sign_in::Person, sign_in::Refusal>;

struct StrangerRequest {
  const s3::Caller& caller;
  std::string_view form;
  bool in_query = false;                    // it stood in the URL
  bool last = false;                        // answer by what keys there are
  const DirectoryAnswer* person = nullptr;  // what the directory said
  // That the client has shown: DER, its own first.
  const std::vector<std::string>* certificates = nullptr;
};

// Serves one form; takes a millisecond or two at most.
void answer_stranger(const StrangerTools& tools, const StrangerRequest& request, s3::Response& response,
                     StrangerReply& reply);

// A refusal as STS words it.
void write_refusal(const sign_in::Refusal& refusal, std::string_view request_id, s3::Response& response);

}  // namespace verbena::iam

// `verbena user`: accounts and users, their keys and policies.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/admin_call.h"
#include "cli/commands.h"
#include "cli/report.h"

namespace verbena::cli {
namespace {

using Json = nlohmann::json;

struct Arguments {
  AdminTarget target;
  bool json = false;
  std::string name, id, display_name, email, path, access_key, secret_key, policy, file, arn;
};
using ArgumentsPtr = std::shared_ptr<Arguments>;

std::string text_of(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Empty if the answer has no such list.
Json list_of(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_array() ? *found : Json::array();
}

// Makes the call, and prints its answer as JSON or by `show`.
int run(const Arguments& arguments, const std::string& call, const Json& request,
        const std::function<void(const Json&)>& show = {}) {
  const auto answer =
      admin_call(arguments.target, call, request, arguments.name.empty() ? "user " + call : arguments.name);
  if (!answer) return answer.error();
  if (arguments.json) {
    fmt::print("{}\n", answer->dump(-1, ' ', false, Json::error_handler_t::replace));
  } else if (show) {
    show(*answer);
  }
  return exit_ok;
}

void add_if_given(Json& request, const char* name, const std::string& value) {
  if (!value.empty()) request[name] = value;
}

Json request_with_key(const Arguments& arguments) {
  Json request = {{"name", arguments.name}};
  add_if_given(request, "access_key", arguments.access_key);
  add_if_given(request, "secret_key", arguments.secret_key);
  return request;
}

void show_new_key(const Json& answer) {
  fmt::print("\n  The keys, shown once:\n\n  export AWS_ACCESS_KEY_ID={}\n  export AWS_SECRET_ACCESS_KEY={}\n\n",
             text_of(answer, "access_key"), text_of(answer, "secret_key"));
}

int run_add(const Arguments& arguments) {
  Json request = request_with_key(arguments);
  add_if_given(request, "id", arguments.id);
  add_if_given(request, "display_name", arguments.display_name);
  add_if_given(request, "email", arguments.email);
  add_if_given(request, "path", arguments.path);
  return run(arguments, "user-add", request, [](const Json& answer) {
    fmt::print("{:<13} {}\n{:<13} {}\n", "name", text_of(answer, "name"), "account", text_of(answer, "account_id"));
    for (const char* field : {"id", "display_name", "email", "arn"}) {
      if (const auto value = text_of(answer, field); !value.empty()) fmt::print("{:<13} {}\n", field, value);
    }
    show_new_key(answer);
  });
}

bool is_active(const Json& key) {
  const auto found = key.find("active");
  return found != key.end() && *found == true;
}

void show_keys(const Json& owner, int indent) {
  for (const Json& key : list_of(owner, "keys")) {
    fmt::print("{:{}}{}  {}  {}\n", "", indent, text_of(key, "access_key"), text_of(key, "created"),
               is_active(key) ? "active" : "off");
  }
}

int run_list(const Arguments& arguments) {
  return run(arguments, "user-list", Json::object(), [](const Json& answer) {
    for (const Json& account : list_of(answer, "accounts")) {
      fmt::print("{}  account={}  id={}{}\n", text_of(account, "name"), text_of(account, "account_id"),
                 text_of(account, "id"), text_of(account, "email").empty() ? "" : "  " + text_of(account, "email"));
      show_keys(account, 4);
      for (const Json& user : list_of(account, "users")) {
        fmt::print("  {}\n", text_of(user, "name"));
        show_keys(user, 4);
      }
    }
  });
}

int run_key(const Arguments& arguments, const std::string& call) {
  Json request = request_with_key(arguments);
  if (call == "key-add") return run(arguments, call, request, show_new_key);
  if (call == "key-list") {
    return run(arguments, call, request, [](const Json& answer) { show_keys(answer, 0); });
  }
  if (call == "key-rm") return run(arguments, call, request);
  request["active"] = call == "key-on";
  return run(arguments, "key-set", request);
}

std::expected<std::string, std::string> read_text(const std::string& path) {
  std::ostringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  std::ifstream file(path, std::ios::binary);
  if (!file || !(text << file.rdbuf())) return std::unexpected("cannot be read");
  return text.str();
}

int run_policy(const Arguments& arguments, const std::string& call) {
  Json request = {{"name", arguments.name}};
  add_if_given(request, "policy", arguments.policy);
  add_if_given(request, "arn", arguments.arn);
  if (call == "policy-put") {
    const auto text = read_text(arguments.file);
    if (!text) return report(arguments.file, text.error(), exit_not_found);
    request["document"] = *text;
  }
  return run(arguments, call, request, [&](const Json& answer) {
    if (call == "policy-get") fmt::print("{}\n", text_of(answer, "document"));
    for (const char* kind : {"inline", "attached"}) {
      for (const Json& name : list_of(answer, kind)) {
        if (name.is_string()) fmt::print("{:<9} {}\n", kind, name.get<std::string>());
      }
    }
  });
}

// A command with the common options. `run` gets its arguments.
CLI::App* leaf(CLI::App& parent, const char* name, const char* what, const ArgumentsPtr& arguments,
               std::function<int(const Arguments&)> serve, int& exit_code) {
  CLI::App* command = parent.add_subcommand(name, what);
  arguments->target.client.add_server_to(*command);
  command->add_option("--data", arguments->target.data, "work on the data directory of a stopped server instead")
      ->type_name("DIR");
  command->add_option("--key-file", arguments->target.key_file, "with --data: encryption.key_file, if it has one")
      ->envname("VERBENA_ENCRYPTION_KEY_FILE")
      ->type_name("FILE");
  command->add_flag("--json", arguments->json, "the answer as one line of JSON");
  command->callback([arguments, serve = std::move(serve), &exit_code] { exit_code = serve(*arguments); });
  return command;
}

CLI::App* named(CLI::App* command, const ArgumentsPtr& arguments) {
  command->add_option("NAME", arguments->name, "ACCOUNT, or ACCOUNT/USER for a user in it")->required();
  return command;
}

void take_keys(CLI::App* command, const ArgumentsPtr& arguments) {
  auto* access = command->add_option("--access-key", arguments->access_key, "default: random")->type_name("K");
  auto* secret = command->add_option("--secret-key", arguments->secret_key, "default: random")->type_name("S");
  access->needs(secret);
  secret->needs(access);
}

void add_key_commands(CLI::App& user, int& exit_code) {
  CLI::App* key = user.add_subcommand("key", "access keys of an account or a user: two at most");
  key->require_subcommand(1);
  struct Kind {
    const char *name, *what, *call;
  };
  for (const Kind& kind : {Kind{"add", "make one", "key-add"}, Kind{"list", "list them", "key-list"},
                           Kind{"rm", "remove one: it stops working at once", "key-rm"},
                           Kind{"on", "turn one on again", "key-on"}, Kind{"off", "turn one off", "key-off"}}) {
    const auto arguments = std::make_shared<Arguments>();
    const std::string call = kind.call;
    CLI::App* command = named(
        leaf(
            *key, kind.name, kind.what, arguments, [call](const Arguments& a) { return run_key(a, call); }, exit_code),
        arguments);
    if (call == "key-add") {
      take_keys(command, arguments);
    } else if (call != "key-list") {
      command->add_option("KEY", arguments->access_key, "the access key")->required();
    }
  }
}

void add_policy_commands(CLI::App& user, int& exit_code) {
  CLI::App* policy = user.add_subcommand("policy", "the policies of a user (ACCOUNT/USER)");
  policy->require_subcommand(1);
  struct Kind {
    const char *name, *what, *call;
  };
  for (const Kind& kind :
       {Kind{"put", "give the user a policy of its own", "policy-put"}, Kind{"get", "show one", "policy-get"},
        Kind{"rm", "remove one", "policy-rm"}, Kind{"attach", "attach a managed policy", "policy-attach"},
        Kind{"detach", "detach one", "policy-detach"}, Kind{"list", "list them", "policy-list"}}) {
    const auto arguments = std::make_shared<Arguments>();
    const std::string call = kind.call;
    CLI::App* command = named(leaf(
                                  *policy, kind.name, kind.what, arguments,
                                  [call](const Arguments& a) { return run_policy(a, call); }, exit_code),
                              arguments);
    if (call == "policy-attach" || call == "policy-detach") {
      command->add_option("ARN", arguments->arn, "as arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess")->required();
    } else if (call != "policy-list") {
      command->add_option("POLICY", arguments->policy, "its name")->required();
    }
    if (call == "policy-put") command->add_option("FILE", arguments->file, "JSON; - for standard input")->required();
  }
}

}  // namespace

void add_user_command(CLI::App& app, int& exit_code) {
  CLI::App* user = app.add_subcommand("user", "Manage accounts and users: their keys and policies");
  user->require_subcommand(1);
  user->footer(
      "An account owns buckets, and its own keys may do everything with them. A user in an account (ACCOUNT/USER) may "
      "do\n"
      "what its policies allow. All of these need the server's root keys.");
  auto add = std::make_shared<Arguments>();
  CLI::App* command = named(leaf(*user, "add", "make an account, or a user in one", add, run_add, exit_code), add);
  command->add_option("--id", add->id, "the account's canonical ID (default: random)")->type_name("ID");
  command->add_option("--display-name", add->display_name, "of the account (default: its name)")->type_name("N");
  command->add_option("--email", add->email, "of the account")->type_name("E");
  command->add_option("--path", add->path, "of the user, as /division/ (default: /)")->type_name("P");
  take_keys(command, add);
  leaf(*user, "list", "show accounts, their users and keys", std::make_shared<Arguments>(), run_list, exit_code);
  auto remove = std::make_shared<Arguments>();
  named(leaf(
            *user, "rm", "remove an account without buckets, or a user", remove,
            [](const Arguments& a) { return run(a, "user-rm", {{"name", a.name}}); }, exit_code),
        remove);
  add_key_commands(*user, exit_code);
  add_policy_commands(*user, exit_code);
}

}  // namespace verbena::cli

#include "cli/command_tree.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

namespace verbena::cli {
namespace {

struct Program {
  Program() {
    auto* look = app.add_subcommand("look", "see what's there");
    look->add_option("PLACE", text, "where")->required();
    look->add_option("--at,-a", text, "from .here\n'there'")->type_name("HOST:PORT");
    look->add_flag("-l,--long", flag, "everything");
    look->footer(".begins with a dot");
    app.add_subcommand("key", "keys")->add_subcommand("add", "one more");
  }
  CLI::App app{"a program", "verbena"};
  std::string text;
  bool flag = false;
};

TEST(CommandTree, IsWhatTheParserKnows) {
  const Program program;
  const auto tree = command_tree(program.app);
  ASSERT_EQ(tree.commands.size(), 2u);
  const auto& look = tree.commands[0];
  EXPECT_EQ(look.path, "verbena look");
  ASSERT_EQ(look.positionals.size(), 1u);
  EXPECT_EQ(look.positionals[0].names, "PLACE");
  EXPECT_TRUE(look.positionals[0].required);
  ASSERT_EQ(look.options.size(), 3u);  // with --help
  EXPECT_EQ(look.options[1].names, "-a, --at");
  EXPECT_EQ(look.options[1].value, "HOST:PORT");
  EXPECT_EQ(look.options[2].value, "");
  EXPECT_EQ(tree.commands[1].commands[0].path, "verbena key add");
}

TEST(CommandTree, APageTakesNoTextForAnInstruction) {
  const Program program;
  const auto tree = command_tree(program.app);
  const std::string page = manual_page(tree.commands[0]);
  EXPECT_EQ(manual_name(tree.commands[1].commands[0]), "verbena-key-add.1");
  EXPECT_NE(page.find("\n\\&.begins with a dot\n"), std::string::npos) << page;
  EXPECT_NE(page.find("\n\\&\\(aqthere\\(aq"), std::string::npos) << page;
  EXPECT_NE(page.find(".B \\-a, \\-\\-at \\fIHOST:PORT\\fR\n"), std::string::npos) << page;
}

TEST(CommandTree, CompletionsQuoteWhatTheySay) {
  const Program program;
  const auto tree = command_tree(program.app);
  EXPECT_NE(completion(tree, "zsh").find("'look:see what'\\''s there'"), std::string::npos);
  EXPECT_NE(completion(tree, "fish").find("-d 'see what\\'s there'"), std::string::npos);
  EXPECT_NE(completion(tree, "bash").find("'verbena key') commands='add'"), std::string::npos);
  EXPECT_EQ(completion(tree, "csh"), "");
}

}  // namespace
}  // namespace verbena::cli

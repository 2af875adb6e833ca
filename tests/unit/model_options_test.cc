// muster-train's options of the model: what is refused, and how.
#include <gtest/gtest.h>

#include "trainer/options.h"

namespace muster {
namespace {

Result<ParsedOptions> parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), {"muster-train", "--data-path", "/d", "--steps", "1"});
  return parse_trainer_options(static_cast<int>(arguments.size()), arguments.data());
}

struct BadOptions {
  std::vector<const char*> arguments;
  std::string message;
};

TEST(ModelOptions, AreRefusedWithWhatIsAllowed) {
  const std::vector<BadOptions> table = {
      {{"--model", "resnet"}, "--model is 'resnet'; allowed: mlp, lenet, logistic"},
      {{"--activation", "tanh"}, "--activation is 'tanh'; allowed: relu, gelu"},
      {{"--label-smoothing", "1"}, "--label-smoothing is 1; allowed: at least 0 and below 1"},
      {{"--label-smoothing", "-0.1"}, "--label-smoothing is -0.1; allowed: at least 0 and below 1"},
      {{"--label-smoothing", "nan"}, "--label-smoothing is nan; allowed: at least 0 and below 1"},
      {{"--model", "lenet", "--hidden", "512"},
       "--hidden is given with --model lenet, which has none; allowed: only with mlp"},
      {{"--model", "logistic", "--dropout", "0.1"},
       "--dropout is given with --model logistic, which has none; allowed: only with mlp, lenet"},
      {{"--model", "lenet", "--activation", "gelu", "--layer-norm", "1"},
       "--activation is given with --model lenet, which has none; allowed: only with mlp\n"
       "--layer-norm is given with --model lenet, which has none; allowed: only with mlp"}};
  for (const BadOptions& bad : table) {
    const auto parsed = parse(bad.arguments);
    ASSERT_FALSE(parsed) << bad.message;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(parsed.error().message, bad.message);
  }
}

TEST(ModelOptions, AreTaken) {
  const auto mlp = parse({"--activation", "gelu", "--layer-norm", "1", "--label-smoothing", "0.1"});
  ASSERT_TRUE(mlp) << mlp.error().message;
  EXPECT_EQ(mlp->options.activation, "gelu");
  EXPECT_TRUE(mlp->options.layer_norm);
  EXPECT_EQ(mlp->options.label_smoothing, 0.1);
  const auto lenet = parse({"--model", "lenet", "--dropout", "0.5"});
  ASSERT_TRUE(lenet) << lenet.error().message;
  EXPECT_EQ(lenet->options.model, "lenet");
}

}  // namespace
}  // namespace muster

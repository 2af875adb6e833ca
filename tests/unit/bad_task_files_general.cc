// Task files with errors: the file as a whole, its keys, and the values at the top level.
#include "tests/unit/bad_task_files.h"

namespace muster::testing {

namespace {

const std::string kHead = "task_name: t\nentry_point: prog\n";
const std::string kTrainer =
    "task_name: t\nentry_point: muster-train\ndata_path: /d\ntrainer:\n  epochs: 1\n";
const std::string kTopLevelKeys =
    "args, checkpoint_path, data_path, entry_point, env, gpu_per_worker, hooks, image, mounts, network, "
    "num_workers, ranks_per_worker, resources, schedule, task_name, trainer";
const std::string kTaskNames = "1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit";
const std::string kPrograms =
    "muster-train, a script or executable (a path that is absolute, relative to the task file, or begins "
    "with ${TASK_DIR} or ${HOME}), or a command on PATH";
const std::string kPaths = "an absolute path, or one that begins with ${TASK_DIR} or ${HOME}";
const std::string kWorkers = "a whole number from 1 to 65536";
const std::string kResourceKeys =
    "constraint, cpus_per_worker, exclude, gpu_type, memory_per_worker, time_limit";

}  // namespace

std::vector<BadTaskFile> bad_files_and_keys() {
  return {
      {"EmptyFile", "",
       "1:1: the file is empty; allowed: keys and values, of which task_name and entry_point must be there"},
      {"OnlyComments", "# nothing\n\n",
       "1:1: the file is empty; allowed: keys and values, of which task_name and entry_point must be there"},
      {"OnlyADocumentMark", "---\n",
       "1:1: the file is empty; allowed: keys and values, of which task_name and entry_point must be there"},
      {"ATextInsteadOfKeys", "hello\n", "1:1: found 'hello'; allowed: keys and values"},
      {"AListInsteadOfKeys", "- task_name: t\n", "1:1: found a list; allowed: keys and values"},
      {"SecondDocument", kHead + "---\ntask_name: u\n",
       "3:1: found a second document; allowed: one document in a file"},
      {"UnclosedBracket", kHead + "args: [a, b\nnum_workers: 2\n",
       "4:12: not valid YAML: end of sequence flow not found"},
      {"UnclosedQuote", kHead + "image: \"/a\n",
       "3:8: not valid YAML: the quote that begins here is not closed"},
      {"UnclosedSingleQuote", kHead + "image: 'it''s\n",
       "3:8: not valid YAML: the quote that begins here is not closed"},
      {"TooDeep", kHead + "args: " + std::string(600, '[') + std::string(600, ']') + "\n",
       "3:1207: not valid YAML: nested too deeply"},
      {"NoColon", kHead + "num_workers 4\n",
       "3:1: unknown key 'num_workers 4'; did you mean 'num_workers'? allowed here: " + kTopLevelKeys},
      {"WindowsLineEnds", kHead + "num_workers: x\r\n", "3:14: num_workers: found 'x'; allowed: " + kWorkers},
      {"ByteOrderMark", "\357\273\277task_name: a b\nentry_point: prog\n",
       "1:12: task_name: found 'a b'; allowed: " + kTaskNames},
      {"EmptyKey", kHead + ": 1\n", "3:1: found nothing as a key; allowed: a name"},
      {"EmptyTextAsKey", kHead + "\"\": 1\nresources: {'': a}\nenv: {'': b}\n",
       "3:1: found an empty text as a key; allowed: a name\n"
       "4:13: found an empty text as a key; allowed: a name\n"
       "5:7: found an empty text as a key; allowed: a name"},
      {"TabIndentation", kHead + "resources:\n\tgpu_type: a\n",
       "4:10: not valid YAML: illegal map value; the line is indented with a tab; allowed: spaces"},
      {"BadIndentation", kHead + "resources:\n  gpu_type: a\n constraint: b\n",
       "5:2: not valid YAML: end of map not found"},
      {"MappingInAValue", kHead + "image: a: b\n", "3:9: not valid YAML: illegal map value"},
      {"ControlCharacter", kHead + "image: /a\004b\n",
       "3:10: found the control character 0x04; allowed: printable text"},
      {"BrokenUtf8", kHead + "image: /\303(\n", "3:9: found the byte 0xc3; allowed: text in UTF-8"},
      {"NulEscape", kHead + "image: \"/a\\0b\"\n",
       "3:8: found a NUL character (\\0); allowed: text without it"},
      {"Alias", kHead + "args: &a [x]\nhooks: {before: *a}\n",
       "4:17: found an alias (*name); allowed: the value itself, written out"},
      {"UnknownAlias", kHead + "args: *nowhere\n",
       "3:7: not valid YAML: the referenced anchor is not defined"},
      {"MergeKey", kHead + "resources:\n  <<: {gpu_type: a}\n",
       "4:3: unknown key 'resources.<<'; allowed here: " + kResourceKeys},
      {"Tag", kHead + "image: !secret /a\n", "3:8: found the tag '!secret'; allowed: values without tags"},
      {"ListAsKey", kHead + "? [a, b]\n: 1\n", "3:3: found a list as a key; allowed: a name"},
      {"UnclosedJson", "{\"task_name\": \"t\",\n \"entry_point\": \"prog\"\n",
       "3:1: not valid YAML: end of map flow not found"},
      {"JsonTrailingText", "{\"task_name\": \"t\", \"entry_point\": \"prog\"}\nx\n",
       "2:1: found a second document; allowed: one document in a file"},
      {"MissingRequiredKeys", "num_workers: 2\n",
       "1:1: task_name: the key is missing; allowed: " + kTaskNames +
           "\n1:1: entry_point: the key is missing; allowed: " + kPrograms},
      {"MissingEntryPoint", "task_name: t\n", "1:1: entry_point: the key is missing; allowed: " + kPrograms},
      {"UnknownKey", kHead + "frobnicate: 1\n",
       "3:1: unknown key 'frobnicate'; allowed here: " + kTopLevelKeys},
      {"MisspeltKey", kHead + "num_wokers: 2\n",
       "3:1: unknown key 'num_wokers'; did you mean 'num_workers'? allowed here: " + kTopLevelKeys},
      {"DashesInKey", kHead + "num-workers: 2\n",
       "3:1: unknown key 'num-workers'; did you mean 'num_workers'? allowed here: " + kTopLevelKeys},
      {"UpperCaseKey", kHead + "Num_Workers: 2\n",
       "3:1: unknown key 'Num_Workers'; did you mean 'num_workers'? allowed here: " + kTopLevelKeys},
      {"KeyOfAnotherGroup", kTrainer + "  checkpoint:\n    keep: 3\nbatch_size: 64\n",
       "7:5: unknown key 'trainer.checkpoint.keep'; allowed here: background, every, "
       "every_steps, expected_mtbf, keep_best, keep_last, timeout\n8:1: unknown key 'batch_size'; did you "
       "mean 'trainer.batch_size'? allowed here: " +
           kTopLevelKeys},
      {"TopLevelKeyInAGroup", kHead + "resources:\n  num_workers: 2\n",
       "4:3: unknown key 'resources.num_workers'; did you mean 'num_workers' at the top level, not in "
       "'resources'? allowed here: " +
           kResourceKeys},
      {"MisspeltKeyInAGroup", kHead + "resources:\n  cpu_per_worker: 2\n",
       "4:3: unknown key 'resources.cpu_per_worker'; did you mean 'cpus_per_worker'? allowed here: " +
           kResourceKeys},
      {"MisspeltKeyDeep", kTrainer + "  optimizer:\n    learningrate: 0.1\n",
       "7:5: unknown key 'trainer.optimizer.learningrate'; did you mean 'learning_rate'? allowed here: "
       "beta1, beta2, epsilon, learning_rate, momentum, name, weight_decay"},
      {"MisspeltGroup", kHead + "schedul:\n  grace: 5s\n",
       "3:1: unknown key 'schedul'; did you mean 'schedule'? allowed here: " + kTopLevelKeys},
      {"DuplicateKey", kHead + "num_workers: 1\nnum_workers: 2\n",
       "4:1: key 'num_workers' was already given at line 3, column 1; allowed: each key once"},
      {"DuplicateKeyInAGroup", kTrainer + "  seed: 1\n  batch_size: 2\n  seed: 1\n",
       "8:3: key 'seed' was already given at line 6, column 3; allowed: each key once"},
      {"DuplicateKeyInFlow", kHead + "resources: {constraint: a, constraint: b}\n",
       "3:28: key 'constraint' was already given at line 3, column 13; allowed: each key once"},
      {"DuplicateKeyInQuotes", kHead + "\"args\": []\nargs: []\n",
       "4:1: key 'args' was already given at line 3, column 1; allowed: each key once"},
      {"TaskNameWithSpace", "task_name: a b\nentry_point: prog\n",
       "1:12: task_name: found 'a b'; allowed: " + kTaskNames},
      {"TaskNameWithSlash", "task_name: ../evil\nentry_point: prog\n",
       "1:12: task_name: found '../evil'; allowed: " + kTaskNames},
      {"TaskNameBeginsWithDot", "task_name: .hidden\nentry_point: prog\n",
       "1:12: task_name: found '.hidden'; allowed: " + kTaskNames},
      {"TaskNameTooLong", "task_name: " + std::string(65, 'a') + "\nentry_point: prog\n",
       "1:12: task_name: found 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\342\200\246'; "
       "allowed: " +
           kTaskNames},
      {"TaskNameIsAList", "task_name: [a]\nentry_point: prog\n",
       "1:12: task_name: found a list; allowed: " + kTaskNames},
      {"TaskNameIsNothing", "task_name:\nentry_point: prog\n",
       "1:1: task_name: found nothing; allowed: " + kTaskNames},
      {"TaskNameIsEmpty", "task_name: \"\"\nentry_point: prog\n",
       "1:12: task_name: found the quoted text ''; allowed: " + kTaskNames},
      {"NumberInWords", kHead + "num_workers: four\n",
       "3:14: num_workers: found 'four'; allowed: " + kWorkers},
      {"NumberInQuotes", kHead + "num_workers: \"4\"\n",
       "3:14: num_workers: found the quoted text '4'; allowed: " + kWorkers},
      {"NumberIsDecimal", kHead + "num_workers: 2.0\n",
       "3:14: num_workers: found '2.0'; allowed: " + kWorkers},
      {"NumberIsZero", kHead + "num_workers: 0\n", "3:14: num_workers: found '0'; allowed: " + kWorkers},
      {"NumberIsNegative", kHead + "gpu_per_worker: -1\n",
       "3:17: gpu_per_worker: found '-1'; allowed: a whole number from 0 to 1024"},
      {"NumberOverflows", kHead + "num_workers: 99999999999999999999\n",
       "3:14: num_workers: found '99999999999999999999'; allowed: " + kWorkers},
      {"NumberWithUnit", kHead + "ranks_per_worker: 2x\n",
       "3:19: ranks_per_worker: found '2x'; allowed: a whole number from 1 to 1024"},
      {"NumberIsNothing", kHead + "num_workers:\nimage: /a\n",
       "3:1: num_workers: found nothing; allowed: " + kWorkers},
      {"NumberIsAGroup", kHead + "num_workers: {min: 1}\n",
       "3:14: num_workers: found a group of keys; allowed: " + kWorkers},
      {"EntryPointIsEmpty", "task_name: t\nentry_point: \"\"\n",
       "2:14: entry_point: found the quoted text ''; allowed: " + kPrograms},
      {"EntryPointWithUnknownVariable", "task_name: t\nentry_point: ${CODE}/train.py\n",
       "2:14: entry_point: found '${CODE}/train.py'; allowed: " + kPrograms},
      {"EntryPointWithTilde", "task_name: t\nentry_point: ~/train.py\n",
       "2:14: entry_point: found the relative path '~/train.py'; allowed: " + kPrograms},
      {"ArgsIsAText", kHead + "args: --lr 0.1\n", "3:7: args: found '--lr 0.1'; allowed: a list of texts"},
      {"ArgsHoldsAGroup", kHead + "args: [a, {b: c}, null]\n",
       "3:11: args: found a group of keys; allowed: a text in each place of the list\n3:19: args: found "
       "nothing; allowed: a text in each place of the list"},
      {"RelativeDataPath", kHead + "data_path: data/mnist\n",
       "3:12: data_path: found the relative path 'data/mnist'; allowed: " + kPaths},
      {"DotDataPath", kHead + "data_path: ./data\n",
       "3:12: data_path: found the relative path './data'; allowed: " + kPaths},
      {"TildePath", kHead + "checkpoint_path: ~/runs\n",
       "3:18: checkpoint_path: found the relative path '~/runs'; allowed: " + kPaths},
      {"UnknownVariableInPath", kHead + "checkpoint_path: ${SCRATCH}/runs\n",
       "3:18: checkpoint_path: found '${SCRATCH}/runs'; allowed: " + kPaths},
      {"VariableInsideAPath", kHead + "checkpoint_path: /a/${HOME}/runs\n",
       "3:18: checkpoint_path: found '/a/${HOME}/runs'; allowed: " + kPaths},
      {"VariableGluedToText", kHead + "checkpoint_path: ${HOME}runs\n",
       "3:18: checkpoint_path: found '${HOME}runs'; allowed: " + kPaths},
      {"UnclosedVariable", kHead + "checkpoint_path: \"${HOME/runs\"\n",
       "3:18: checkpoint_path: found '${HOME/runs'; allowed: " + kPaths},
      {"PathIsEmpty", kHead + "data_path: ''\n",
       "3:12: data_path: found the quoted text ''; allowed: " + kPaths},
      {"PathIsNothing", kHead + "data_path:\n", "3:1: data_path: found nothing; allowed: " + kPaths},
      {"PathWithNewline", kHead + "data_path: \"/a\\nb\"\n",
       "3:12: data_path: found a path with a control character; allowed: " + kPaths},
      {"ImageIsAList", kHead + "image: [/a]\n",
       "3:8: image: found a list; allowed: a text that is not empty"},
      {"ImageIsEmpty", kHead + "image: ''\n",
       "3:8: image: found the quoted text ''; allowed: a text that is not empty"},
  };
}

}  // namespace muster::testing

/* beeswax: language models on the command line. Owns the choice of a command, exit codes and the state of the standard
 * streams; what a command does is in cmd_*.c. */
#include "cli.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bw_log.h"
#include "bw_mem.h"

const cli_command *const cli_commands[] = {&cli_cmd_run,     &cli_cmd_chat,    &cli_cmd_serve,
                                           &cli_cmd_bench,   &cli_cmd_inspect, &cli_cmd_quantize,
                                           &cli_cmd_devices, &cli_cmd_doctor,  NULL};

const cli_command *cli_command_find(const char *name)
{
    for (int i = 0; cli_commands[i]; i++)
        if (strcmp(cli_commands[i]->name, name) == 0)
            return cli_commands[i];
    return NULL;
}

static int overview(void)
{
    bw_str out = {0};
    bw_str_add_format(&out, "beeswax %s: language models on this machine\n\nUsage: beeswax COMMAND ...\n\n",
                      bw_version());
    for (int i = 0; cli_commands[i]; i++)
        bw_str_add_format(&out, "  %-10s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    bw_str_add(&out, "  help       what a command does and its options: beeswax help COMMAND\n"
                     "\n"
                     "  beeswax run model.gguf Why is the sky blue?\n"
                     "  beeswax serve model.gguf --port 8080\n");
    return cli_out_str(&out);
}

static int help(const cli_command *command)
{
    bw_str out = {0};
    cli_args_help(command, &out);
    return cli_out_str(&out);
}

static int unknown_command(const char *name)
{
    cli_fail("there is no command \"%.60s\"", name);
    fputs("`beeswax help` lists the commands.\n", stderr);
    return CLI_USAGE;
}

static int run_command(const cli_command *command, char **argv, int argc)
{
    bw_err err = {0};
    int n_words = 0, code;
    void *settings = bw_alloc_zero(1, command->settings_bytes);
    if (!settings)
        return cli_fail("there is no memory");
    if (command->init)
        command->init(settings);
    const cli_common *common = settings;
    if (cli_args_parse(command, argv, argc, settings, &n_words, &err) != BW_OK) {
        code = cli_usage(command, "%s", err.text);
    } else if (common->help) {
        code = help(command);
    } else {
        cli_set_quiet(common->quiet);
        bw_log_configure(common->quiet                           ? BW_LOG_ERROR
                         : common->verbose                       ? BW_LOG_DEBUG
                         : command->log_info || common->log_json ? BW_LOG_INFO
                                                                 : BW_LOG_WARN,
                         common->log_json);
        code = command->run(command, settings, argv, n_words);
    }
    bw_free(settings);
    return code;
}

/* A stream that came closed would be the number of the next file opened, and a model could be written over. Opened the
 * wrong way round, using it fails with a sentence instead. */
static void keep_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
            _exit(CLI_FAILED);
}

int main(int argc, char **argv)
{
    keep_streams();
    signal(SIGPIPE, SIG_DFL); /* a reader that leaves ends us quietly */
    signal(SIGXFSZ, SIG_IGN); /* a file too large is an error of its write */
    if (argc < 2)
        return overview();
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        cli_out_format("beeswax %s\n", bw_version());
        return cli_out_end(CLI_OK);
    }
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        if (argc < 3)
            return overview();
        const cli_command *command = cli_command_find(argv[2]);
        return command ? help(command) : unknown_command(argv[2]);
    }
    if (name[0] == '-') {
        cli_fail("there is no option %.60s before a command", name);
        fputs("`beeswax help` lists the commands.\n", stderr);
        return CLI_USAGE;
    }
    const cli_command *command = cli_command_find(name);
    return command ? run_command(command, argv + 2, argc - 2) : unknown_command(name);
}

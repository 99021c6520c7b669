#include "base/id.h"
#include "cli/cli.h"
#include "serve.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    static const struct cli_command serve = {"serve", "Run the service in the foreground",
                                             serve_help, serve_main};
    if (!gh_id_init()) {
        fprintf(stderr, "gatehouse: the kernel gives no random numbers\n");
        return CLI_FAILED;
    }
    return cli_main(argc, argv, &serve);
}

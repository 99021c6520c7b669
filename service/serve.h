/* serve: the composition root of `gatehouse serve`: builds every part, waits for signals, takes it
 * all apart in the right order. Single-threaded itself; the parts have threads of their own. */
#ifndef GH_SERVE_H
#define GH_SERVE_H

/* The `serve` command; argv[0] is its name. Returns the exit code. */
int serve_main(int argc, char **argv);

/* Usage and examples of `serve`. Static. */
extern const char serve_help[];

#endif

/* world: one tree for all tests of facts: working directory w, home, and folders outside; and what
 * is expected of calls in it. Every failure ends the test.
 */
#ifndef TEST_GATE_WORLD_H
#define TEST_GATE_WORLD_H

#include "gate/facts.h"

extern struct gate_place place;
extern const char *root; /* of the tree */

void begin(void);
void end(void);

struct gate_target path_target(const char *path);
struct gate_target move_target(const char *from, const char *to);
struct gate_verdict judge(const struct gate_facts *facts, enum gate_mode mode);

/* The code of the verdict on a known tool's call. */
void expect(enum gate_action action, const char *path, enum gate_mode mode, const char *code);
void expect_move(const char *from, const char *to, enum gate_mode mode, const char *code);

#endif

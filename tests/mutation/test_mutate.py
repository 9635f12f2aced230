"""tests/mutation/mutate.py: what needs no build. Run by CTest."""

import unittest

import mutate

MUTANT = mutate.drawn("04_warp_reduce", 1, 1)[0]
KEY = mutate.identity(MUTANT)


class Draw(unittest.TestCase):
    def test_a_seed_draws_the_same_mutants_and_more_of_them_if_asked(self):
        few, many = (mutate.drawn("04_warp_reduce", 1, count) for count in (10, 20))
        self.assertEqual(many[:10], few)
        self.assertEqual(len(many), 20)
        self.assertNotEqual(mutate.drawn("04_warp_reduce", 2, 10), few)

    def test_a_mutant_differs_from_its_lesson_in_one_line_of_code(self):
        lesson = mutate.source_of("04_warp_reduce").read_text().splitlines()
        for mutant in mutate.mutants_of("04_warp_reduce"):
            text = mutate.text_of(mutant).splitlines()
            changed = [i for i, line in enumerate(lesson) if line.strip() != text[i].strip()]
            self.assertEqual(changed, [mutant.line - 1])
            self.assertFalse(mutant.old.startswith(("//", "#", ".")), mutant.old)

    def test_every_kind_of_mistake_is_made(self):
        made = {m.operator for m in mutate.mutants_of("04_warp_reduce")}
        self.assertEqual(made, {operator for operator, *_ in mutate.OPERATORS})


class List(unittest.TestCase):
    def test_a_survivor_that_is_not_listed_is_a_complaint(self):
        self.assertEqual(list(mutate.complaints({MUTANT: "survived"}, {})), [KEY])
        self.assertFalse(mutate.complaints({MUTANT: "survived"}, {KEY: "equivalent"}))

    def test_a_listed_mutant_that_is_rejected_or_not_drawn_is_a_complaint(self):
        self.assertEqual(list(mutate.complaints({MUTANT: "rejected"}, {KEY: "not found"})), [KEY])
        gone = (KEY[0], 1, "gone", "gone + 1")
        self.assertEqual(list(mutate.complaints({MUTANT: "rejected"}, {gone: "not found"})), [gone])

    def test_what_is_believed_to_survive_is_not_checked_again(self):
        few = mutate.drawn("04_warp_reduce", 1, 3)
        seen = []
        verdicts = mutate.verdicts_on(few, lambda mutant: seen.append(mutant) or "rejected", {KEY})
        self.assertEqual(list(verdicts.values()), ["survived", "rejected", "rejected"])
        self.assertEqual(list(verdicts), few)
        self.assertEqual(set(seen), set(few[1:]))

    def test_a_check_that_crashes_is_a_complaint(self):
        self.assertEqual(list(mutate.complaints({MUTANT: "the check ended with -11"}, {})), [KEY])

    def test_the_list_is_read_as_mutants_are_shown(self):
        text = f"# Why.\n\nequivalent: it is.\n\n{mutate.described(KEY)}\n"
        self.assertEqual(mutate.listed(text), {KEY: "equivalent"})
        with self.assertRaises(SystemExit):
            mutate.listed(mutate.described(KEY))  # without a reason


if __name__ == "__main__":
    unittest.main()

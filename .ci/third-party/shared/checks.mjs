// Counts what holds and says what does not.

export class Checks {
	#name;
	#passed = 0;
	#failed = 0;

	constructor(name) {
		this.#name = name;
	}

	holds(what, condition, detail) {
		if (condition) {
			this.#passed += 1;
			return;
		}
		this.#failed += 1;
		console.log(`FAILED ${what}: ${JSON.stringify(detail)}`);
	}

	equal(what, actual, expected) {
		this.holds(what, JSON.stringify(actual) === JSON.stringify(expected), { actual, expected });
	}

	/// Says the sum, and fails the process if something does not hold.
	finish() {
		console.log(`${this.#name}: ${this.#passed} passed, ${this.#failed} failed`);
		process.exitCode = this.#failed === 0 ? 0 : 1;
	}
}

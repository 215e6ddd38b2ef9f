// Every test, for one bundle.
import.meta.glob("./*.test.ts", { eager: true });

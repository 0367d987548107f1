import js from "@eslint/js";
import { defineConfig } from "eslint/config";
import globals from "globals";

export default defineConfig([
  { ignores: ["proteus_widgets/static/dist/"] },
  { files: ["**/*.js"], plugins: { js }, extends: ["js/recommended"], linterOptions: { reportUnusedDisableDirectives: "error" } },
  { files: ["proteus_widgets/static/**/*.js"], languageOptions: { globals: globals.browser } },
  {
    rules: {
      "array-callback-return": "error",
      eqeqeq: "error",
      "no-promise-executor-return": "error",
      "no-shadow": "error",
      "no-unused-expressions": "error",
      "no-use-before-define": ["error", { functions: false, classes: false }],
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      "prefer-template": "error",
    },
  },
]);

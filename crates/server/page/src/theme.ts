/** Runs before the page is drawn: the chosen theme, without a flash of the other one. */
import { applyTheme } from "./common/theme";

applyTheme();

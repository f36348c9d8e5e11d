import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { connect } from "sowline";
import { SowlineProvider } from "sowline/react";

import { Desk } from "./Desk.js";
import { SERVICE } from "./orders.js";
import "./desk.css";

const client = connect(SERVICE);

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <SowlineProvider client={client}>
      <Desk />
    </SowlineProvider>
  </StrictMode>,
);
